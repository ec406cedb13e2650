"""The trials so far, as the planner sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from treeline.plain import clean
from treeline.records import Effect, Finished, Started

if TYPE_CHECKING:
    from treeline.store import TrialLog


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """One trial that is over. ``effect`` None: it was interrupted, so there is no verdict.

    ``this_run``: it belongs to the playbook run that asks now. Only those count for the rules that take a
    host out or stop the sweep: whoever starts the sweep again has seen what happened before.
    ``what`` describes it for people; the planner does not read it. ``throughput`` is in tokens/s by
    concurrency or ``<concurrency>@<context>``, as the trial's record has it.
    """

    trial_id: str
    item_id: str
    cell: str
    host: str
    effect: Effect | None
    this_run: bool = True
    what: str = ""
    throughput: dict[str, float | None] = {}


class InFlight(msgspec.Struct, frozen=True, kw_only=True):
    """One trial that a host works on now."""

    trial_id: str
    item_id: str
    cell: str
    host: str


class History(msgspec.Struct, frozen=True, kw_only=True):
    """Trials that are over, in the order of their verdicts, and those in flight."""

    past: tuple[Past, ...] = ()
    in_flight: tuple[InFlight, ...] = ()

    @classmethod
    def of(
        cls,
        log: TrialLog,
        hardware_class: str,
        *,
        this_run: Callable[[Started], bool],
        in_flight: Callable[[Started], bool],
    ) -> History:
        """Read the history of one hardware class from a trial log.

        ``this_run`` and ``in_flight`` tell of a claim whether the asking run made it, and whether a claim
        without a verdict is still being worked on (else it was interrupted).
        """
        past: list[Past] = []
        flying: list[InFlight] = []
        for line in log.lines:
            if line.hardware_class != hardware_class:
                continue
            if isinstance(line, Finished):
                claim = log.started.get(line.trial_id)
                past.append(_finished(line, claim is not None and this_run(claim)))
            elif line.trial_id not in log.finished:
                if in_flight(line):
                    flying.append(
                        InFlight(trial_id=line.trial_id, item_id=line.item_id, cell=line.cell, host=line.host)
                    )
                else:
                    past.append(_interrupted(line, this_run(line)))
        return cls(past=tuple(past), in_flight=tuple(flying))


def _finished(line: Finished, this_run: bool) -> Past:
    cause = f" {line.class_}" if line.class_ and line.class_ != "ok" else ""
    return Past(
        trial_id=line.trial_id,
        item_id=line.item_id,
        cell=line.cell,
        host=line.host,
        effect=line.effect,
        this_run=this_run,
        throughput=line.throughput,
        what=f"{line.status}{cause}" + (f": {clean(line.first_error, 160)}" if line.first_error else ""),
    )


def _interrupted(line: Started, this_run: bool) -> Past:
    return Past(
        trial_id=line.trial_id,
        item_id=line.item_id,
        cell=line.cell,
        host=line.host,
        effect=None,
        this_run=this_run,
        what="interrupted",
    )
