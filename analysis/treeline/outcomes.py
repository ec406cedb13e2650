"""What became of each host of a sweep, read from the results that its plays registered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from treeline.records import HostState


def host_outcome(host_variables: Mapping[str, Any]) -> dict[str, Any]:
    """How a run left one host, as plain values of a `HostState`.

    A host is `touched` once its snapshot was attempted, or when preflight met the snapshot of an earlier
    sweep that nobody has put back. Any other owes nothing and is not `restored` either.
    """
    restored = host_variables.get("__treeline_restored") or {}
    left_over = (host_variables.get("__treeline_preflight") or {}).get("snapshot_present")
    touched = host_variables.get("__treeline_snapshot") is not None or bool(left_over)
    reason = restored.get("reason") or restored.get("msg") or ""
    if left_over and not reason:
        reason = f"the snapshot of sweep {left_over} is still there"
    if not touched:
        reason = reason or _why_not_taken(host_variables)
    state = HostState(
        touched=touched,
        restored=touched and bool(restored.get("restored", False)),
        reason=str(reason),
        broke_off=str(host_variables.get("__treeline_broke_off") or ""),
    )
    plain: dict[str, Any] = msgspec.to_builtins(state)
    return plain


def _why_not_taken(host_variables: Mapping[str, Any]) -> str:
    looked = host_variables.get("__treeline_preflight") or {}
    failed = looked.get("failed") or looked.get("unreachable")
    return str(looked.get("msg") or "") if failed and looked.get("msg") else "no trial ran on it"


def host_states(hosts: Mapping[str, Mapping[str, Any]]) -> dict[str, HostState]:
    """The same as typed values; a host about which nothing else is said counts as touched."""
    return {
        host: HostState(
            touched=bool(entry.get("touched", True)),
            restored=bool(entry.get("restored")),
            reason=str(entry.get("reason") or ""),
            broke_off=str(entry.get("broke_off") or ""),
        )
        for host, entry in hosts.items()
    }
