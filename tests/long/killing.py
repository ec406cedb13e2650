"""Ways to kill a controller, and what is left of it afterwards."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

# `alone`: ansible-playbook only, as the kernel does for want of memory; its workers are other sessions.
# `group`: its process group, as a closed terminal. `tree`: everything it started, as a machine that goes off.
MODES = ("alone", "group", "tree")


def kill(pid: int, mode: str) -> list[int]:
    """Send SIGKILL to ansible-playbook and, as `mode` says, to what it started; the pids that were meant."""
    if mode == "group":
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        return [pid]
    meant = [pid, *descendants(pid)] if mode == "tree" else [pid]
    for each in meant:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    return meant


def descendants(pid: int) -> list[int]:
    """Every process below `pid`, parents first."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, IndexError, ValueError):
                parent = int((entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    queue = [pid]
    while queue:
        below = children.get(queue.pop(0), [])
        found += below
        queue += below
    return found


def naming(text: str) -> list[int]:
    """Processes of this machine whose command line holds `text`, this one left out."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if text.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found
