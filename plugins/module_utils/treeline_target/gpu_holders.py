"""Who holds memory of the GPUs, and what that means while no trial is meant to run.

A holder in the control group of a unit that is down (the trial's, or a found one) is an orphan: its service
is gone and it stayed. One in the control group of a found unit that runs is in its place; systemd stops it
when the trial starts. Everybody else is foreign.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence

from . import cgroups, gpu_facts, units

PROC = Path("/proc")
FOUND, TRIAL, ORPHAN, FOREIGN, GONE = "found", "trial", "orphan", "foreign", "gone"
# What the driver keeps for itself is less; a share, because it grows with the memory.
UNEXPLAINED_MIB = 1024.0
UNEXPLAINED_SHARE = 0.01


@dataclass(frozen=True)
class Holder:
    """One process with memory on one or more GPUs (uuids). `memory_mib` is None where the tool does not tell.

    `place` is one of found, trial, orphan, foreign, gone (the tool lists it, but this host has no such
    process); empty until it is known.
    """

    pid: int
    command: str
    cgroup: str
    unit: Optional[str]
    memory_mib: Optional[float]
    gpus: tuple[str, ...]
    place: str = ""

    def __str__(self) -> str:
        memory = "an unknown amount of" if self.memory_mib is None else "%.0f MiB of" % self.memory_mib
        where = "of %s" % (self.unit or "control group %s" % (self.cgroup or "unknown"))
        if self.place == GONE:
            where = "no process of this host any more"
        return "pid %d (%s), %s, holding %s GPU memory" % (self.pid, self.command, where, memory)

    def as_dict(self) -> dict[str, Any]:
        """For results: plain values."""
        return {**asdict(self), "gpus": list(self.gpus)}


def find(facts: gpu_facts.Facts, root: Optional[str] = None, proc: Path = PROC) -> list[Holder]:
    """The holders that the tool lists, each process once, with their control groups as the kernel has them.

    `root` is the control group below which PID 1 keeps its units.
    """
    root = cgroups.manager_root(proc) if root is None else root
    found: dict[int, Holder] = {}
    for app in facts.apps:
        known = found.get(app.pid)
        if known is None:
            found[app.pid] = _holder(app, root, proc)
            continue
        total = (
            None if None in (known.memory_mib, app.used_memory) else _sum(known.memory_mib, app.used_memory)
        )
        found[app.pid] = replace(known, memory_mib=total, gpus=(*known.gpus, app.gpu_uuid))
    return list(found.values())


def runs(unit: str) -> bool:
    """Whether systemd will stop this unit's processes: it is up, or on its way up or down."""
    return units.active_state(unit) not in ("inactive", "failed")


def place(
    holders: Iterable[Holder], found: Sequence[str], trial: str, is_up: Callable[[str], bool] = runs
) -> list[Holder]:
    """The holders with their place. `found` are all names of the found units."""
    return [replace(holder, place=_place(holder, found, trial, is_up)) for holder in holders]


def at(holders: Iterable[Holder], *places: str) -> list[Holder]:
    """Those in one of the places."""
    return [holder for holder in holders if holder.place in places]


def unexplained(facts: gpu_facts.Facts) -> dict[str, float]:
    """MiB in use that no listed process accounts for, by GPU uuid, where it is more than a driver keeps.

    A GPU with a process whose memory is not told is left out; all are when processes are hidden.
    """
    if facts.hidden:
        return {}
    held: dict[str, Optional[float]] = {}
    for app in facts.apps:
        before = held.get(app.gpu_uuid, 0.0)
        held[app.gpu_uuid] = None if None in (before, app.used_memory) else _sum(before, app.used_memory)
    left: dict[str, float] = {}
    for gpu in facts.gpus:
        uuid, used, total = str(gpu.get("uuid")), gpu.get("memory.used"), gpu.get("memory.total")
        listed = held.get(uuid, 0.0)
        if not isinstance(used, (int, float)) or listed is None:
            continue
        share = UNEXPLAINED_SHARE * total if isinstance(total, (int, float)) else 0.0
        if used - listed > max(UNEXPLAINED_MIB, share):
            left[uuid] = round(used - listed, 1)
    return left


def describe_unexplained(left: Mapping[str, float], facts: gpu_facts.Facts) -> list[str]:
    """One line for each GPU: how much is in use without a process that the tool shows."""
    index = {str(gpu.get("uuid")): gpu.get("index") for gpu in facts.gpus}
    return [
        "GPU %s (%s): %.0f MiB are in use although no process is shown that holds them; a driver that leaks "
        "gives them back at a reset of the GPU or a reboot" % (index.get(uuid, "?"), uuid, mib)
        for uuid, mib in left.items()
    ]


def _holder(app: gpu_facts.App, root: str, proc: Path) -> Holder:
    process = cgroups.describe(app.pid, root, proc)
    return Holder(
        pid=app.pid,
        command=process.command or app.process_name or "unknown",
        cgroup=process.cgroup,
        unit=process.unit,
        memory_mib=app.used_memory,
        gpus=(app.gpu_uuid,),
        place="" if process.cgroup else GONE,
    )


def _place(holder: Holder, found: Sequence[str], trial: str, is_up: Callable[[str], bool]) -> str:
    if holder.place == GONE:
        return GONE
    if holder.unit == trial:
        return TRIAL if is_up(trial) else ORPHAN
    if holder.unit is not None and holder.unit in found:
        return FOUND if is_up(holder.unit) else ORPHAN
    return FOREIGN


def _sum(one: Optional[float], other: Optional[float]) -> float:
    return (one or 0.0) + (other or 0.0)
