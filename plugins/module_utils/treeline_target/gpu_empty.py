"""Make sure that nothing is on the GPUs when a trial starts but what systemd stops for it.

The order spares a host that cannot be swept anyway: a foreign holder ends the attempt before anything is
touched. Then the trial before is stopped (its restart would do the same, unseen), what it or a found unit
left behind is ended by its control group, and the GPUs are looked at again until they are empty.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Sequence

from . import found_units, gpu_facts, gpu_holders, gpu_orphans, gpu_tool, units
from .gpu_holders import FOREIGN, GONE, ORPHAN, TRIAL, Holder

STOP_S = 75.0
KILL_S = 15.0
# A driver frees the memory of a killed process in the background; more than 30 s have been seen.
LINGER_S = 45.0
GLANCE_S = 3.0
POLL_S = 1.0


class NotEmptyError(Exception):
    """The GPUs are not free for a trial; the message names who is on them and what to do."""

    def __init__(self, message: str, holders: Sequence[Holder] = (), ended: Sequence[Holder] = ()) -> None:
        super().__init__(message)
        self.holders = list(holders)
        self.ended = list(ended)


@dataclass
class Emptied:
    """The last look, who still holds memory (found units that run), whom we ended, and what to know."""

    facts: gpu_facts.Facts
    holders: list[Holder] = field(default_factory=list)
    ended: list[Holder] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """For results: plain values."""
        return {
            "holders": [holder.as_dict() for holder in self.holders],
            "orphans_ended": [holder.as_dict() for holder in self.ended],
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class _Asked:
    """`names` are all names of the found units."""

    command: str
    trial_unit: str
    found: Sequence[str]
    names: Sequence[str]


def make_empty(command: str, trial_unit: str, found: Sequence[str], linger_s: float = LINGER_S) -> Emptied:
    """Stop what is left of the trial before and end orphans on the GPUs.

    Raises NotEmptyError for a GPU that needs a reset, a foreign holder, an orphan that cannot be ended, a
    trial that does not stop, or a tool that is there and does not answer; CommandError when systemd does not
    answer.
    """
    names = sorted(found_units.names_of(found)) if found else []
    asked = _Asked(command, trial_unit, found, names)
    holders, facts = _look(asked)
    faults = list(gpu_facts.faults(facts.gpus))
    if faults:
        raise NotEmptyError("no trial can start: %s" % "; ".join(faults), holders)
    _refuse_foreign(holders, found)
    touched = stop_trial(trial_unit)
    result = Emptied(facts, holders)
    if facts.tool is None:
        result.notes.append(gpu_tool.absence(command))
        return result
    _empty(asked, result, touched, linger_s)
    result.notes += _remarks(result)
    return result


def stop_trial(trial_unit: str) -> bool:
    """Stop the trial before, by force where it does not end; whether it was up. Raises NotEmptyError."""
    if units.active_state(trial_unit) in ("inactive", "failed"):
        return False
    if not units.stop(trial_unit, STOP_S) and not units.kill(trial_unit, KILL_S):
        raise NotEmptyError(
            "the trial before, %s, does not stop, even when killed: a process of it hangs in the kernel, "
            "which only a reboot of the host ends" % trial_unit
        )
    return True


def _empty(asked: _Asked, result: Emptied, touched: bool, linger_s: float) -> None:
    """End orphans and look again until only found units that run are left, or what nobody can end."""
    tried: set[int] = set()
    deadline = time.monotonic() + (linger_s if touched else GLANCE_S)
    stale = touched
    while True:
        if stale:
            result.holders, result.facts = _look(asked)
            _refuse_foreign(result.holders, asked.found, result.ended)
        orphans = [one for one in gpu_holders.at(result.holders, ORPHAN) if one.pid not in tried]
        if orphans:
            tried.update(orphan.pid for orphan in orphans)
            _end(orphans, result)
            deadline, touched = time.monotonic() + linger_s, True
        freeing = touched and bool(gpu_holders.unexplained(result.facts))
        if not freeing and not gpu_holders.at(result.holders, ORPHAN, TRIAL, GONE):
            return
        if time.monotonic() >= deadline:
            _refuse_leftovers(result)
            return
        stale = True
        time.sleep(POLL_S)


def _end(orphans: Sequence[Holder], result: Emptied) -> None:
    for unit in dict.fromkeys(orphan.unit for orphan in orphans if orphan.unit is not None):
        if gpu_holders.runs(unit):
            continue  # somebody has started it since we looked
        those = [orphan for orphan in orphans if orphan.unit == unit]
        left = gpu_orphans.end(unit, those)
        result.ended += [orphan for orphan in those if orphan not in left]
        if left:
            raise NotEmptyError(
                "%s was left behind and cannot be ended (state %s): a process that hangs in the driver goes "
                "only with a reset of the GPU or a reboot of the host"
                % ("; ".join(map(str, left)), gpu_orphans.state_of(left[0].pid) or "gone"),
                left,
                result.ended,
            )


def _look(asked: _Asked) -> tuple[list[Holder], gpu_facts.Facts]:
    facts = gpu_facts.look(asked.command)
    if facts.problem is not None:
        raise NotEmptyError(
            "the GPUs cannot be looked at, so it is not known whether they are free: %s. Mend the driver, or "
            "give treeline_gpu_query another tool (none: do not look)" % facts.problem
        )
    return gpu_holders.place(gpu_holders.find(facts), asked.names, asked.trial_unit), facts


def _refuse_foreign(holders: Sequence[Holder], found: Sequence[str], ended: Sequence[Holder] = ()) -> None:
    foreign = gpu_holders.at(holders, FOREIGN)
    if foreign:
        raise NotEmptyError(
            "the GPUs are not free: %s; none of treeline_found_units (%s) and not the trial's. Stop it, or "
            "add its unit to treeline_found_units if it serves production"
            % ("; ".join(map(str, foreign)), ", ".join(found)),
            holders,
            ended,
        )


def _refuse_leftovers(result: Emptied) -> None:
    left = gpu_holders.at(result.holders, ORPHAN, TRIAL)
    if left:
        raise NotEmptyError(
            "%s: still listed although it was ended; its memory is not given back. Reset the GPU or reboot "
            "the host" % "; ".join(map(str, left)),
            result.holders,
            result.ended,
        )


def _remarks(result: Emptied) -> list[str]:
    """What to know about GPUs that are as free as they can be made."""
    said = ["ended %s: left behind" % orphan for orphan in result.ended]
    said += [
        "%s: the tool lists a process that is gone" % holder
        for holder in gpu_holders.at(result.holders, GONE)
    ]
    said += gpu_holders.describe_unexplained(gpu_holders.unexplained(result.facts), result.facts)
    if result.facts.hidden:
        said.append(
            "%d processes on the GPUs are hidden from us: who they are is not known" % result.facts.hidden
        )
    return said
