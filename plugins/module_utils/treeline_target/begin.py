"""Note where a host stands just before a trial is started: what later tells its traces from older ones."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence

from . import clock, lease, snapshot, systemd
from .files import PATHS, Paths, forget_evidence


class BeginError(Exception):
    """No trial may start on this host; the message says why and what to do."""


def begin(
    trial_unit: str,
    trial_id: str,
    lease_given: Optional[Mapping[str, Any]],
    found_units: Sequence[str] = (),
    paths: Paths = PATHS,
) -> dict[str, Any]:
    """Renew the lease and return the marks {trial_id, previous_invocation_id, cursor, at_realtime_usec, ...}.

    Raises BeginError when the found services are not on record (nothing may be stopped then), LeaseLostError
    when the lease has fired or is another's, SnapshotError, StateFileError or CommandError.
    """
    fired = lease.read_fired(paths)
    if fired is not None:
        raise lease.LeaseLostError(lease.fired_message(fired))
    lease.rearm(lease_given, paths)
    found = snapshot.read(paths)
    if found is None:
        raise BeginError(
            "%s does not exist: what runs on this host is not on record, so no trial may stop it. "
            "Take the snapshot first (treeline_found, state: snapshot)" % paths.snapshot
        )
    forget_evidence(paths, but=trial_id)
    snapshot.check_same(found, found_units or [entry["unit"] for entry in found["found"]], trial_unit)
    return {
        "trial_id": trial_id,
        "previous_invocation_id": systemd.show(trial_unit, ("InvocationID",)).get("InvocationID", ""),
        "cursor": journal_cursor(),
        "at_realtime_usec": clock.realtime_usec(),
        "at_monotonic": clock.monotonic(),
        "boot_id": clock.boot_id(),
        "found": [_state(entry["unit"]) for entry in found["found"]],
        "awake_again": [
            entry["unit"]
            for entry in [*found["dependents"], *found["triggers"]]
            if entry["running"] and _state(entry["unit"])["running"]
        ],
    }


def journal_cursor() -> Optional[str]:
    """The journal's place now, None while it is empty. Raises CommandError."""
    shown = systemd.run(
        ("journalctl", "--no-pager", "--quiet", "--lines=0", "--show-cursor"), timeout=30, check=True
    )
    for line in shown.stdout.splitlines():
        if line.startswith("-- cursor: "):
            return line[len("-- cursor: ") :].strip()
    return None


def _state(unit: str) -> dict[str, Any]:
    shown = systemd.show(unit, ("ActiveState", "SubState", "InvocationID"))
    state = shown.get("ActiveState", "")
    return {
        "unit": unit,
        "active_state": state,
        "sub_state": shown.get("SubState", ""),
        "invocation_id": shown.get("InvocationID", ""),
        "running": systemd.is_running_state(state),
    }
