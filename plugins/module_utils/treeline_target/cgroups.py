"""Tell which unit a process belongs to, from its control group."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from . import redact, units

_PROC = Path("/proc")
_UNIT_SUFFIXES = (".service", ".scope", ".socket", ".mount", ".swap")


@dataclass(frozen=True)
class Process:
    """A process as a message shows it: pid, command line (secrets hidden), control group, unit if any."""

    pid: int
    command: str
    cgroup: str
    unit: Optional[str]

    def __str__(self) -> str:
        return "pid %d (%s), of %s" % (self.pid, self.command, self.unit or "control group %s" % self.cgroup)


def systemd_path(text: str) -> str:
    """The path that systemd manages, from /proc/PID/cgroup: cgroup v2's, else that of name=systemd."""
    unified = ""
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "name=systemd":
            return path
        if number == "0" and not controllers:
            unified = path
    return unified


def unit_of(path: str, root: str = "") -> Optional[str]:
    """The unit in a control group path below `root`: the first part that is no slice; None for none.

    `root` is where PID 1 keeps its own groups: on a host inside a container the path starts there.
    """
    below = path[len(root) :] if root and path.startswith(root + "/") else path
    for part in below.split("/"):
        if part.endswith(_UNIT_SUFFIXES):
            return part
        if part and not part.endswith(".slice"):
            return None
    return None


def manager_root(proc: Path = _PROC) -> str:
    """The control group below which PID 1 keeps its units, empty on an ordinary host."""
    path = systemd_path(_read(proc / "1" / "cgroup"))
    return path[: -len("/init.scope")] if path.endswith("/init.scope") else ""


def describe(pid: int, root: str, proc: Path = _PROC) -> Process:
    """A process by its pid; one that is gone has an empty command line and group."""
    cgroup = systemd_path(_read(proc / str(pid) / "cgroup"))
    argv = units.argv_of(pid, proc)
    command = " ".join(redact.argv(argv)) if argv else _read(proc / str(pid) / "comm").strip()
    return Process(pid, command[:300], cgroup, unit_of(cgroup, root))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
