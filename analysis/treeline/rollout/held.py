"""Hosts that a sweep has taken and not given back: what a rollout changed there, its restore would undo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from treeline.rollout.errors import RolloutRefusedError


def refuse_if_held(found: Mapping[str, Any]) -> None:
    """Refuse hosts on which preflight found a snapshot of a sweep, or a lease that has not ended.

    Args:
        found: what ``treeline_preflight`` returned, by host; its ``snapshot_present`` (a sweep's id) and
            ``lease_holder`` (with ``sweep_id``) are read. Anything but a mapping says nothing.

    Raises:
        RolloutRefusedError: names the hosts, and whose they are.
    """
    held = [
        f"{host} (sweep {sweep})"
        for host, preflight in sorted(found.items())
        if isinstance(preflight, Mapping) and (sweep := _sweep_on(preflight)) is not None
    ]
    if held:
        raise RolloutRefusedError(
            f"a sweep has not given back {', '.join(held)}: let it end, or run restore.yml there"
        )


def _sweep_on(preflight: Mapping[str, Any]) -> str | None:
    """The sweep that holds a host, ``unknown`` where it does not say its id; None where there is none."""
    snapshot, lease = preflight.get("snapshot_present"), preflight.get("lease_holder")
    if not snapshot and not lease:
        return None
    of_the_lease = lease.get("sweep_id") if isinstance(lease, Mapping) else None
    return str(snapshot or of_the_lease or "unknown")
