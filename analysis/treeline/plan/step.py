"""The next step of a host: an item, or why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from treeline.keys import Item, Known, Plan
from treeline.plan.agenda import Agenda
from treeline.plan.cells import Standing
from treeline.plan.evidence import Evidence
from treeline.plan.history import InFlight, Past
from treeline.plan.limits import GO_ON, Spend
from treeline.plan.outcome import known_and_open
from treeline.records import Effect


@dataclass(frozen=True)
class Wait:
    """All that is left is being worked on by other hosts and may come back."""

    reason: str


@dataclass(frozen=True)
class Done:
    """Nothing to do for this run. ``complete``: every item of the plan is settled."""

    reason: str
    complete: bool


@dataclass(frozen=True)
class Stop:
    """The sweep stops: going on would only repeat the same failure."""

    reason: str


@dataclass(frozen=True)
class Out:
    """This host does no more trials in this run."""

    host: str
    reason: str


Step = Item | Wait | Done | Stop | Out

NOTHING_KNOWN = Known()
UNLIMITED = Spend()

# Trials that say nothing (void, interrupted) neither make nor break a row of two.
_TELLING: frozenset[Effect] = frozenset(("good", "bad", "repeat", "repeat_transient", "dialect", "setup"))

DIALECT_ADVICE = (
    "The dialect does not seem to fit this engine: compare its flags (roles/sglang_ddtree/vars/dialects) "
    "with `python -m sglang.launch_server --help` of the installed engine, and name the one that fits "
    "with -e engine_dialect=NAME"
)
SETUP_ADVICE = (
    "Every trial would fail like this until it is mended on the host; then run the same command again"
)


def next_step(
    plan: Plan,
    history: Sequence[Past],
    in_flight: Sequence[InFlight],
    host: str,
    limit: int | None = None,
    *,
    known: Known = NOTHING_KNOWN,
    spend: Spend = UNLIMITED,
) -> Step:
    """What ``host`` does next; the same arguments always give the same answer.

    Args:
        plan: items in the order in which they are to be run, or the frontier that is searched.
        history: trials that are over, in the order of their verdicts, all of this host's hardware class.
        in_flight: trials being worked on; those of ``host`` itself are taken as given up.
        host: the host that asks.
        limit: trials that one run of the playbook may start; None for no limit.
        known: what this hardware class brings along from earlier sweeps.
        spend: what the whole sweep may cost.
    """
    if (stop := stop_reason(history)) is not None:
        return Stop(stop)
    evidence = Evidence.of(history)
    agenda = Agenda(plan, evidence, known)
    elsewhere = [flight for flight in in_flight if flight.host != host]
    # Steps that may turn out not to be needed are not worth it where restarts are counted.
    item = agenda.pick(host, elsewhere, ahead=not spend.limited)
    returning = [flight for flight in elsewhere if agenda.may_bring_more(flight)]
    if item is None and not returning:
        return Done("every item of the plan is done", complete=not elsewhere)
    if (out := out_reason(history, host)) is not None:
        return Out(host, out)
    if (enough := limit_reason(history, elsewhere, limit, spend)) is not None:
        found = "" if plan.frontier is None else f". {known_and_open(plan, history, known)}"
        return Done(f"{enough}{found}", complete=False)
    if item is None:
        names = ", ".join(f"{flight.item_id} on {flight.host}" for flight in returning)
        if plan.frontier is None:
            return Wait(f"what is left is being run ({names}) and may have to be run again")
        return Wait(f"what comes next depends on what is being run ({names})")
    return _with_reason(item, evidence.standing(item.item_id))


def open_items(plan: Plan, history: Sequence[Past], known: Known = NOTHING_KNOWN) -> list[Item]:
    """Items that have to be run now, those in flight included, in the order of handing out.

    A frontier plan's later items follow from these: ``remaining`` estimates how many there will be.
    """
    return Agenda(plan, Evidence.of(history), known).open_items()


def limit_reason(
    history: Sequence[Past], in_flight: Sequence[InFlight], limit: int | None, spend: Spend
) -> str | None:
    """Why no more trials are begun although some are wanted; None where one more may be.

    Args:
        limit: trials that one run of the playbook may start.
        spend: what the whole sweep may cost; every trial that was begun counts as a restart.
    """
    begun = sum(past.this_run for past in history) + len(in_flight)
    if limit is not None and begun >= limit:
        return f"this run has started {begun} trials, as many as max_trials_per_run allows. {GO_ON}"
    return spend.reason_to_end(len(history) + len(in_flight))


def stop_reason(history: Sequence[Past]) -> str | None:
    """Why the sweep has to stop after these trials, for the rest of this run; None where it may go on."""
    telling = [past for past in history if past.this_run and past.effect in _TELLING]
    if telling and telling[0].effect == "setup":
        first = telling[0]
        return (
            f"the first trial failed on {first.host} for a reason outside its settings ({first.what}). "
            f"{SETUP_ADVICE}"
        )
    for before, after in pairwise(telling):
        if before.effect != after.effect or before.cell == after.cell:
            continue
        if after.effect == "setup":
            why = f"two cells in a row failed for a reason outside their settings ({after.what})"
            return f"{why}. {SETUP_ADVICE}"
        if after.effect == "dialect":
            return f"two cells in a row were not served as asked ({after.what}). {DIALECT_ADVICE}"
    return None


def out_reason(history: Sequence[Past], host: str) -> str | None:
    """Why a host does no more trials in this run; None where it may go on."""
    mine = [past for past in history if past.this_run and past.host == host and past.effect is not None]
    if mine and mine[-1].effect == "node":
        return f"its hardware or driver failed ({mine[-1].what}, trial {mine[-1].trial_id})"
    if len(mine) >= 2 and all(past.effect in ("void", "node") for past in mine[-2:]):
        return f"two of its trials in a row were void (the last: {mine[-1].what})"
    return None


def _with_reason(item: Item, standing: Standing) -> Item:
    if standing.last is None:
        return item
    again = (
        f"{item.reason}; again, because trial {standing.last.trial_id} decided nothing ({standing.last.what})"
    )
    return msgspec.structs.replace(item, reason=again)
