"""Keeps one lab host: runs systemd-nspawn, and again when the host asked for a reboot.

Run by path with `python -I -S`: standard library only. It enters the host's cgroups before it goes into the
background, so that from its first moment everything of this host is found by its cgroup. If it is killed, the
host goes on but could not reboot: the next `up` sees that no supervisor is left and boots the host again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

REBOOT_STATUS = 133  # systemd-nspawn(1): with --keep-unit a reboot of the host ends it with this status


def enter_cgroups(directories: list[Path]) -> None:
    """Move this process into each directory, one per hierarchy."""
    for directory in directories:
        (directory / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")


def to_background() -> None:
    """Leave the caller's session; the caller gets its exit status from a parent that ends at once."""
    if os.fork():
        os._exit(0)
    os.setsid()


def keep(command: list[str]) -> int:
    """Run `command` until it ends for another reason than a reboot; its exit status."""
    while True:
        status = subprocess.run(command, check=False).returncode
        print(f"treeline-lab: systemd-nspawn ended with status {status}", flush=True)
        if status != REBOOT_STATUS:
            return status


def main(argv: list[str]) -> int:
    """Enter the cgroups, go into the background, keep the host."""
    parser = argparse.ArgumentParser(prog="supervisor.py", description="keep one lab host running")
    parser.add_argument("--cgroup", action="append", type=Path, default=[])
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(argv)
    enter_cgroups(options.cgroup)
    to_background()
    return keep(options.command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
