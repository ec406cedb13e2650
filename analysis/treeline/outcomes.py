"""What became of each host of a sweep, read from the results that its plays registered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def host_outcome(host_variables: Mapping[str, Any]) -> dict[str, Any]:
    """Outcome of one host: {touched, restored, reason, broke_off}.

    A host is `touched` once its snapshot was attempted; an untouched host owes
    nothing, so it counts as restored.
    """
    snapshot = host_variables.get("__treeline_snapshot")
    restored = host_variables.get("__treeline_restored") or {}
    touched = snapshot is not None
    reason = restored.get("reason") or restored.get("msg") or ("" if touched else "no trial ran on it")
    return {
        "touched": touched,
        "restored": not touched or bool(restored.get("restored", False)),
        "reason": str(reason),
        "broke_off": str(host_variables.get("__treeline_broke_off", "")),
    }
