"""The GPUs before and after a trial, for its evidence: error counters, flags, and who held memory.

`gpu.json` is {tool, before, after}; either side is null where there was no tool to ask. Each side is
{at, problem, hung, gpus, holders, unexplained_mib}. `treeline.node_facts` reads it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Optional, Sequence

from . import found_units, gpu_empty, gpu_facts, gpu_holders, systemd
from .files import make_folder, write_atomic

FILE_NAME = "gpu.json"
BEFORE_NAME = "gpu-before.json"
# The trial is over: a tool that hangs must not hold up its record for long.
TIMEOUT_S = 15.0


def note_before(folder: Path, emptied: gpu_empty.Emptied) -> None:
    """Lay the look before the trial into its folder, for `collect`. Raises StateFileError."""
    if emptied.facts.tool is None:
        return
    make_folder(folder, 0o700)
    write_atomic(folder / BEFORE_NAME, json.dumps(side(emptied.facts, emptied.holders)) + "\n")


def collect(
    out_dir: Path, command: str, trial_unit: str, found: Sequence[str]
) -> tuple[dict[str, Any], list[str]]:
    """What stands in `gpu.json`, and notes about what could not be had; nothing is raised."""
    before = _read(out_dir / BEFORE_NAME)
    facts = gpu_facts.look(command, TIMEOUT_S)
    if facts.tool is None:
        lost = ["the GPU query tool that answered before the trial is gone"] if before else []
        return {"tool": None, "before": before, "after": None}, lost
    notes = [facts.problem] if facts.problem else []
    holders = gpu_holders.find(facts)
    try:
        names = sorted(found_units.names_of(found)) if found else []
        holders = gpu_holders.place(holders, names, trial_unit)
    except systemd.CommandError as error:
        notes.append("who held the GPUs could not be told: %s" % error)
    return {"tool": facts.tool, "before": before, "after": side(facts, holders)}, notes


def side(facts: gpu_facts.Facts, holders: Sequence[gpu_holders.Holder]) -> dict[str, Any]:
    """One look as plain values."""
    return {
        "at": facts.at,
        "problem": facts.problem,
        "hung": facts.hung,
        "gpus": list(facts.gpus),
        "holders": [holder.as_dict() for holder in holders],
        "unexplained_mib": gpu_holders.unexplained(facts),
    }


def _read(path: Path) -> Optional[dict[str, Any]]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None
