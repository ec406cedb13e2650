"""End what a unit left behind: every process of its control group, by SIGKILL, within a bound."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Optional, Sequence

from . import cgroups, units
from .gpu_holders import Holder

PROC = Path("/proc")
MOUNTS = (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/systemd"))
POLL_S = 0.1
# systemd's own kill first; where it does not know the group, the group is killed directly.
SYSTEMD_WAIT_S = 3.0
WAIT_S = 15.0


def end(unit: str, orphans: Sequence[Holder], proc: Path = PROC, wait_s: float = WAIT_S) -> list[Holder]:
    """Kill the control group of `unit`, in which the orphans are; returns those that live on.

    The caller has seen that the unit is down. Raises CommandError when systemd does not answer.
    """
    units.kill(unit, SYSTEMD_WAIT_S)
    left = _wait(orphans, SYSTEMD_WAIT_S, proc)
    if left:
        for group in dict.fromkeys(_group_of(unit, orphan.cgroup) for orphan in left):
            if group is not None:
                _kill_group(group)
        left = _wait(left, wait_s, proc)
    return left


def state_of(pid: int, proc: Path = PROC) -> str:
    """The state letter of a process (D: it waits in the kernel, where no signal reaches it); empty: gone."""
    try:
        text = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    rest = text.rpartition(")")[2].split()
    return rest[0] if rest else ""


def _wait(orphans: Sequence[Holder], wait_s: float, proc: Path) -> list[Holder]:
    deadline = time.monotonic() + wait_s
    while True:
        left = [orphan for orphan in orphans if _still_there(orphan, proc)]
        if not left or time.monotonic() >= deadline:
            return left
        time.sleep(POLL_S)


def _still_there(orphan: Holder, proc: Path) -> bool:
    """Whether the process lives, and in the same group: a pid may have gone to another process meanwhile."""
    if state_of(orphan.pid, proc) in ("", "Z", "X"):
        return False
    return cgroups.systemd_path(_read(proc / str(orphan.pid) / "cgroup")) == orphan.cgroup


def _group_of(unit: str, path: str) -> Optional[str]:
    """The unit's own control group in the path of a process in it; None for a path that is not below it."""
    parts = path.split("/")
    return "/".join(parts[: parts.index(unit) + 1]) if unit in parts else None


def _kill_group(group: str) -> None:
    """Kill everything in a control group and below, at once where the kernel can (5.14), and one by one.

    A process may have been moved in one hierarchy alone, so each is gone through.
    """
    for mount in MOUNTS:
        folder = mount / group.lstrip("/")
        if not folder.is_dir():
            continue
        with contextlib.suppress(OSError):
            (folder / "cgroup.kill").write_text("1", encoding="ascii")
        _kill_each(folder)


def _kill_each(folder: Path) -> None:
    for listing in sorted(folder.rglob("cgroup.procs")):
        for word in _read(listing).split():
            try:
                os.kill(int(word), signal.SIGKILL)
            except (OSError, ValueError):
                continue


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
