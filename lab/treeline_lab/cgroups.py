"""One cgroup per host: it names everything that runs for it, whatever was killed before.

systemd-nspawn on a machine with the hybrid layout needs a place of its own in both hierarchies (cgroup2 and
`name=systemd`); on a pure cgroup2 machine there is only the one.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from treeline_lab.errors import LabError

MOUNTS = Path("/proc/self/mounts")
ROOT = "treeline-lab"
KILL_TIMEOUT_S = 20.0


def hierarchies(text: str | None = None) -> list[Path]:
    """Mount points of cgroup2 and of the name=systemd hierarchy, as far as they exist (proc(5), mounts)."""
    text = MOUNTS.read_text(encoding="utf-8") if text is None else text
    found: dict[str, Path] = {}
    for line in text.splitlines():
        _, point, kind, options = line.split()[:4]
        if kind == "cgroup2":
            found.setdefault("cgroup2", Path(point))
        elif kind == "cgroup" and "name=systemd" in options.split(","):
            found.setdefault("systemd", Path(point))
    return list(found.values())


def directories(lab: str, host: str = "") -> list[Path]:
    """The cgroup directories of a host, or of the whole lab."""
    return [base / ROOT / lab / host if host else base / ROOT / lab for base in hierarchies()]


def create(lab: str, host: str) -> list[Path]:
    """Make the host's cgroups; raises LabError when there is no usable hierarchy."""
    made = directories(lab, host)
    if not made:
        raise LabError("no cgroup2 or name=systemd hierarchy is mounted: systemd-nspawn cannot run here")
    for directory in made:
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LabError(f"cannot make the cgroup {directory}: {error}") from None
    return made


def hosts(lab: str) -> set[str]:
    """Names of the hosts that have a cgroup."""
    return {
        child.name for base in directories(lab) if base.is_dir() for child in base.iterdir() if child.is_dir()
    }


def processes(lab: str, host: str) -> set[int]:
    """Pids of everything that runs for the host, its supervisor included."""
    found: set[int] = set()
    for base in directories(lab, host):
        for directory in _walk(base):
            try:
                found.update(int(word) for word in (directory / "cgroup.procs").read_text("ascii").split())
            except OSError:
                continue  # removed since it was listed
    return found


def supervised(lab: str, host: str) -> bool:
    """Whether the host's supervisor lives: it stays in the host's own cgroup, all else is in those below."""
    for base in directories(lab, host):
        try:
            if (base / "cgroup.procs").read_text("ascii").strip():
                return True
        except OSError:
            continue
    return False


def kill(lab: str, host: str) -> bool:
    """Kill everything of the host and wait until it is gone; whether there was anything.

    Raises LabError when something outlives SIGKILL by 20 s.
    """
    deadline = time.monotonic() + KILL_TIMEOUT_S
    pids = processes(lab, host)
    was_running = bool(pids)
    while pids:
        for pid in sorted(pids):  # the supervisor is the oldest: it must not boot the host again
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if time.monotonic() > deadline:
            raise LabError(f"processes of host {host} do not die: {sorted(pids)}")
        time.sleep(0.02)
        pids = processes(lab, host)
    return was_running


def remove(lab: str, host: str = "") -> None:
    """Remove the empty cgroups of a host, or of a lab without hosts; what is in use stays."""
    for base in directories(lab, host):
        if not base.is_dir():
            continue
        for directory in _walk(base):
            _remove_empty(directory)
        if not host:
            _remove_empty(base.parent)


def _walk(base: Path) -> list[Path]:
    """`base` and all below it, innermost first."""
    # A running host makes and removes cgroups all the time; os.walk leaves out what goes away, rglob raises.
    return [Path(found) for found, _, _ in os.walk(base, topdown=False)]


def _remove_empty(directory: Path) -> None:
    deadline = time.monotonic() + 2.0
    while directory.is_dir():
        try:
            directory.rmdir()
        except OSError:
            if time.monotonic() > deadline or any(path.is_dir() for path in directory.iterdir()):
                return
            time.sleep(0.02)
