"""Start a process in the control group of a unit, whether systemd has that group or not.

Runs inside a lab host:

    plant_holder.py UNIT

Prints the pid and the start time (clock ticks since boot) of the process, which sleeps until it is killed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

MOUNTS = ("/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup")


def group_of(unit: str) -> str:
    """The unit's control group; where systemd has none for it, the one that it would get."""
    asked = ["systemctl", "show", "--value", "--property=ControlGroup", "--", unit]
    shown = subprocess.run(asked, capture_output=True, text=True, timeout=20, check=False)
    return shown.stdout.strip() or f"/system.slice/{unit}"


def enter(group: str) -> None:
    """Move this process into the control group, in every hierarchy that has processes."""
    for mount in map(Path, MOUNTS):
        if (mount / "cgroup.procs").exists():
            folder = mount / group.lstrip("/")
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "cgroup.procs").write_text(str(os.getpid()))


def become_holder(report: int) -> None:
    """Tell who this process is, let go of everything, and sleep. Does not return."""
    start = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    os.write(report, f"{os.getpid()} {start}".encode())
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.closerange(3, 64)
    os.execv("/usr/bin/sleep", ["treeline-lab-holder", "infinity"])  # noqa: S606


def main(unit: str) -> None:
    """Start it as a child of the host's process 1."""
    group = group_of(unit)
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            enter(group)
            become_holder(writing)
        os._exit(0)
    os.close(writing)
    print(os.read(reading, 100).decode())


if __name__ == "__main__":
    main(sys.argv[1])
