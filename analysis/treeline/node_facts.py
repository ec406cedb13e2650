"""What the GPUs of a host say about a trial: whether the node failed under it, and who else was on them.

Pure. Both sides are those of ``gpu.json`` in the evidence (``treeline_target.gpu_evidence``): {at, problem,
hung, gpus, holders, unexplained_mib}, with the query tool's own field names in ``gpus``; None where there was
no tool to ask. Counters that are not told are never taken for zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Side = Mapping[str, Any]
Gpu = Mapping[str, Any]

# Uncorrected errors cost an application its data; corrected ones, and rows remapped for them, do not.
COUNTERS = {
    "ecc.errors.uncorrected.volatile.total": "uncorrected memory errors (ECC, since the last reset)",
    "ecc.errors.uncorrected.aggregate.total": "uncorrected memory errors (ECC, over its life)",
    "remapped_rows.uncorrectable": "memory rows remapped for uncorrectable errors",
    "retired_pages.double_bit.count": "memory pages retired for double-bit errors",
}
FLAGS = {
    "remapped_rows.failure": "a memory row could not be remapped",
    "remapped_rows.pending": "a memory row waits to be remapped",
    "retired_pages.pending": "a memory page waits to be retired",
}
# What the tool prints of itself when a GPU or the driver is gone; other complaints may be the tool's own.
_GONE = (
    "unable to determine the device handle",
    "couldn't communicate with the nvidia driver",
    "driver/library version mismatch",
    "no devices were found",
    "gpu is lost",
    "requires reset",
)


def node_fault(before: Side | None, after: Side | None) -> str | None:
    """Why the node is to blame for what happened in between, in one sentence; None where nothing says so.

    Error counters that grew, flags and recovery actions that appeared, GPUs that were lost or are not listed
    any more. Without a look before, only a GPU that is out of order now counts: old errors are not this
    trial's. That the tool did not answer in time is no proof and does not count.
    """
    if after is None:
        return None
    said = [*_tool_faults(after)]
    earlier = _by_uuid(before)
    later = _by_uuid(after)
    if before is not None and not after.get("problem"):
        said += [f"{_name(gpu)} is not listed any more" for uuid, gpu in earlier.items() if uuid not in later]
    for uuid, gpu in later.items():
        said += [f"{_name(gpu)}: {what}" for what in _faults(earlier.get(uuid), gpu, before is not None)]
    return "; ".join(said) or None


def intruders(after: Side | None) -> str | None:
    """Who held GPU memory beside the trial when its evidence was taken, in one sentence; None for nobody.

    Figures and failures of such a trial say nothing about its setting: the memory was not all its own. What a
    found unit left behind is ended before the next trial starts; a stranger keeps that one from starting.
    """
    if after is None:
        return None
    holders = _mappings(after.get("holders"))
    beside = [_holder(one) for one in holders if one.get("place") in ("orphan", "foreign", "found")]
    return f"other processes held GPU memory while the trial ran: {'; '.join(beside)}" if beside else None


def orphans(ended: Sequence[Mapping[str, Any]]) -> list[str]:
    """What a service that was gone had left on the GPUs and the start of a trial ended, one sentence each."""
    return [f"before the trial, {_holder(one)}, was ended: it was left behind" for one in ended]


def _tool_faults(after: Side) -> list[str]:
    problem = str(after.get("problem") or "")
    return [f"the GPU query tool says: {problem}"] if any(mark in problem.lower() for mark in _GONE) else []


def _faults(before: Gpu | None, after: Gpu, compared: bool) -> list[str]:
    """What is wrong with one GPU now that was not before."""
    said = []
    state = after.get("state")
    if state not in (None, "ok") and (before is None or before.get("state") == "ok"):
        said.append(f"its state is: {state}")
    action = after.get("gpu_recovery_action")
    if _asks(action) and not (before is not None and before.get("gpu_recovery_action") == action):
        said.append(f"the driver asks for its recovery ({action})")
    if not compared or before is None:
        return said
    for name, what in COUNTERS.items():
        grown = _growth(before.get(name), after.get(name))
        if grown:
            said.append(
                f"{grown} more {what} than before the trial ({before.get(name)} -> {after.get(name)})"
            )
    said += [what for name, what in FLAGS.items() if _no(before.get(name)) and _yes(after.get(name))]
    return said


def _growth(before: Any, after: Any) -> int:
    """By how much a counter grew; one that fell was reset meanwhile, and the one over its life tells."""
    if not _is_number(before) or not _is_number(after):
        return 0
    return max(0, int(after - before))


def _asks(action: Any) -> bool:
    return isinstance(action, str) and action.strip().lower() not in ("", "none")


def _yes(value: Any) -> bool:
    """Drivers print flags as Yes or as 1."""
    return str(value).strip().lower() in ("yes", "1", "true")


def _no(value: Any) -> bool:
    return str(value).strip().lower() in ("no", "0", "false")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _by_uuid(side: Side | None) -> dict[str, Gpu]:
    gpus = _mappings(side.get("gpus")) if side is not None else []
    return {str(gpu.get("uuid") or gpu.get("pci.bus_id") or gpu.get("index")): gpu for gpu in gpus}


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, Sequence) else []


def _name(gpu: Gpu) -> str:
    return f"GPU {gpu.get('index')} ({gpu.get('uuid')})"


def _holder(holder: Mapping[str, Any]) -> str:
    memory = holder.get("memory_mib")
    amount = f"{memory:.0f} MiB" if _is_number(memory) else "an unknown amount"
    where = holder.get("unit") or f"control group {holder.get('cgroup') or 'unknown'}"
    return f"pid {holder.get('pid')} ({holder.get('command')}) of {where}, {amount}"
