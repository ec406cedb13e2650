"""Which state directory a lab belongs to: its name is the machine's (namespaces, cgroups)."""

from __future__ import annotations

from pathlib import Path

from treeline_lab import cgroups, network
from treeline_lab.errors import LabError
from treeline_lab.state import RUN_DIR, write_atomically


def _file(lab: str) -> Path:
    return RUN_DIR / f"{lab}.dir"


def check(lab: str, state_dir: Path) -> None:
    """Raise LabError when a lab of this name is there and belongs to another state directory."""
    try:
        owner = _file(lab).read_text(encoding="utf-8")
    except FileNotFoundError:
        return
    if owner != str(state_dir) and (network.exists(lab) or cgroups.hosts(lab)):
        raise LabError(
            f"a lab named {lab!r} is up already, from the directory {owner} (not {state_dir}). "
            f"Use another --name, or: treeline-lab --name {lab} --dir {owner} down"
        )


def take(lab: str, state_dir: Path) -> None:
    """Note that the lab belongs to this state directory; raises LabError as `check` does."""
    check(lab, state_dir)
    RUN_DIR.mkdir(exist_ok=True)
    write_atomically(_file(lab), str(state_dir).encode())


def release(lab: str) -> None:
    """Forget the lab."""
    _file(lab).unlink(missing_ok=True)
