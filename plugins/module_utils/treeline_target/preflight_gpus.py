"""What preflight says about the GPUs: which there are, whether they are sound, and who is on them."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Protocol, Sequence

from . import found_units, gpu_facts, gpu_holders, gpu_tool
from .gpu_holders import FOREIGN, GONE, ORPHAN, TRIAL


class Findings(Protocol):
    """Where a check puts what it finds."""

    problems: list[str]
    notes: list[str]
    facts: dict[str, Any]


def check(command: str, found: Sequence[str], trial: str, report: Findings) -> None:
    """Look and report; nothing is ended here. Whether the unit `trial` may be up is judged elsewhere."""
    facts = gpu_facts.look(command)
    report.facts["gpus"] = list(facts.names)
    report.facts["driver"] = facts.driver
    report.facts["hardware_class_hint"] = facts.hardware_class
    report.facts["gpu_tool"] = facts.tool
    report.facts["gpu_state"] = list(facts.gpus)
    report.facts["gpu_holders"] = []
    if facts.tool is None:
        _say_absent(command, report)
        return
    if facts.problem is not None:
        report.problems.append("the GPUs cannot be looked at: %s" % facts.problem)
        return
    report.problems.extend(gpu_facts.faults(facts.gpus))
    report.notes.extend(_signs_of_wear(facts.gpus))
    names = sorted(found_units.names_of(found))
    holders = gpu_holders.place(gpu_holders.find(facts), names, trial)
    report.facts["gpu_holders"] = [holder.as_dict() for holder in holders]
    for holder in gpu_holders.at(holders, FOREIGN):
        report.problems.append(
            "a GPU is used by %s, which is none of treeline_found_units (%s); add its unit there if it "
            "serves production, or stop it" % (holder, ", ".join(found))
        )
    for holder in gpu_holders.at(holders, ORPHAN):
        report.notes.append("%s was left behind; the first trial ends it before it starts" % holder)
    for holder in gpu_holders.at(holders, TRIAL, GONE):
        report.notes.append(str(holder))
    report.notes.extend(gpu_holders.describe_unexplained(gpu_holders.unexplained(facts), facts))
    if facts.hidden:
        report.notes.append("%d processes on the GPUs are hidden from us" % facts.hidden)


def _say_absent(command: str, report: Findings) -> None:
    if command != gpu_tool.NONE and gpu_tool.DRIVER_DEVICE.exists():
        report.problems.append(
            "this host has an NVIDIA driver (%s), but %s; set treeline_gpu_query to the tool's path, or to "
            "none if nobody else uses the GPUs" % (gpu_tool.DRIVER_DEVICE, gpu_tool.absence(command))
        )
    else:
        report.notes.append("%s: GPUs and their processes were not looked at" % gpu_tool.absence(command))


def _signs_of_wear(gpus: Sequence[Mapping[str, gpu_facts.Value]]) -> Iterator[str]:
    """What a GPU can be used with, but whoever looks after it should know."""
    for gpu in gpus:
        if _is_yes(gpu.get("remapped_rows.failure")):
            yield "%s failed to remap a row of its memory: it is due for replacement" % gpu_facts.named(gpu)
        if _is_yes(gpu.get("remapped_rows.pending")) or _is_yes(gpu.get("retired_pages.pending")):
            yield "%s has memory that is retired at its next reset" % gpu_facts.named(gpu)
        errors = gpu.get("ecc.errors.uncorrected.volatile.total")
        if isinstance(errors, (int, float)) and errors > 0:
            yield "%s has counted %d uncorrected memory errors since its last reset" % (
                gpu_facts.named(gpu),
                errors,
            )


def _is_yes(value: gpu_facts.Value) -> bool:
    """Yes or 1: drivers print flags either way."""
    return str(value).strip().lower() in ("yes", "1", "true")
