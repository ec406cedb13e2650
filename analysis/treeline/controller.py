"""Which process runs a sweep, and whether it still lives."""

from __future__ import annotations

import multiprocessing
import os
import socket
from pathlib import Path
from typing import Literal

from treeline.records import Controller

Liveness = Literal["alive", "dead", "elsewhere"]

_PROC = Path("/proc")


def boot_id(proc: Path = _PROC) -> str:
    """The kernel's id of this boot."""
    return (proc / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def pid_namespace(proc: Path = _PROC) -> str | None:
    """The namespace that this process's pids count in; None where the kernel does not tell."""
    try:
        return str((proc / "self/ns/pid").readlink())
    except OSError:
        return None


def process_start(pid: int, proc: Path = _PROC) -> int | None:
    """Start time of a process in clock ticks since boot; None where it is gone or only waits to be reaped."""
    try:
        stat = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The program name stands in parentheses and may hold both spaces and parentheses.
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in "ZX" else int(fields[18])


def this_controller() -> Controller:
    """The ansible-playbook process that this code runs for.

    Ansible forks a worker for each task, so inside one the answer is its parent; elsewhere this process.
    """
    worker_of = multiprocessing.parent_process()
    pid = os.getpid() if worker_of is None or worker_of.pid is None else worker_of.pid
    # A parent that died meanwhile has no start time; 0 matches no process, so nobody takes it for alive.
    return Controller(
        host=socket.gethostname(),
        boot_id=boot_id(),
        pid=pid,
        pid_start=process_start(pid) or 0,
        pid_namespace=pid_namespace(),
    )


def liveness(controller: Controller, host: str | None = None, proc: Path = _PROC) -> Liveness:
    """Whether a controller process still lives.

    ``elsewhere``: it ran on another machine or in another container, where only the lease of a target tells.
    Containers of one machine share the kernel's boot id, but not their pids nor (as a rule) their host name.
    A machine of the same name in another boot has restarted since, so its process is dead.
    """
    same_host = controller.host == (host or socket.gethostname())
    if controller.boot_id != boot_id(proc):
        return "dead" if same_host else "elsewhere"
    if not same_host or controller.pid_namespace not in (None, pid_namespace(proc)):
        return "elsewhere"
    return "alive" if process_start(controller.pid, proc) == controller.pid_start else "dead"
