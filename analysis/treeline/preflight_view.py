"""What preflight found on a host, as lines for a person who decides whether to go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SHOWN = 12


def lines(preflight: Mapping[str, Any]) -> list[str]:
    """What a sweep takes down, what could not be told, and how the trial unit differs from the found one.

    Args:
        preflight: the result of ``treeline_preflight``; its keys ``services_down``, ``notes`` and
            ``differences`` {only_found, only_trial} are read. The full lists are kept in preflight.json.
    """
    down = [str(unit) for unit in preflight.get("services_down") or []]
    said = [f"down during the trials: {', '.join(down) or 'nothing, no found service is running'}"]
    said.extend(f"note: {note}" for note in preflight.get("notes") or [])
    differences = preflight.get("differences") or {}
    for name, words in (("only_found", "the found unit alone has"), ("only_trial", "the trial alone has")):
        entries = [str(entry) for entry in differences.get(name) or []]
        said.extend(f"{words}: {entry}" for entry in entries[:_SHOWN])
        if len(entries) > _SHOWN:
            said.append(f"{words} {len(entries) - _SHOWN} more directives: see preflight.json of the sweep")
    return said
