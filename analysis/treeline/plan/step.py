"""The next step of a host: an item, or why there is none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from treeline.keys import Item, Plan
from treeline.plan.cells import MAX_BACKS, NEVER_RUN, Standing, retry_of, standings
from treeline.plan.history import InFlight, Past
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
) -> Step:
    """What ``host`` does next; the same arguments always give the same answer.

    Args:
        plan: items in the order in which they are to be run.
        history: trials that are over, in the order of their verdicts, all of this host's hardware class.
        in_flight: trials being worked on; those of ``host`` itself are taken as given up.
        host: the host that asks.
        limit: trials that one run of the playbook may start; None for no limit.
    """
    if (stop := stop_reason(history)) is not None:
        return Stop(stop)
    elsewhere = [flight for flight in in_flight if flight.host != host]
    busy = {flight.item_id for flight in elsewhere}
    known = standings(history)
    ready = [item for item in _open_items(plan, known) if item.item_id not in busy]
    returning = [flight for flight in elsewhere if _may_come_back(flight, known)]
    if not ready and not returning:
        return Done("every item of the plan is done", complete=not elsewhere)
    if (out := out_reason(history, host)) is not None:
        return Out(host, out)
    begun = sum(past.this_run for past in history) + len(elsewhere)
    if limit is not None and begun >= limit:
        return Done(
            f"this run has started {begun} trials, as many as max_trials_per_run allows. "
            "Run the same command again to go on",
            complete=False,
        )
    if not ready:
        names = ", ".join(f"{flight.item_id} on {flight.host}" for flight in returning)
        return Wait(f"what is left is being run ({names}) and may have to be run again")
    return _with_reason(ready[0], known.get(ready[0].item_id, NEVER_RUN))


def open_items(plan: Plan, history: Sequence[Past]) -> list[Item]:
    """Items that still have to be run, those in flight included, in the order of handing out."""
    return _open_items(plan, standings(history))


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


def _open_items(plan: Plan, known: dict[str, Standing]) -> list[Item]:
    """Items still to be run: planned ones first, then repeats; those that went back wait behind the others.

    An interrupted item keeps its place: it did not go wrong.
    """
    wanted = [item for item in _items_with_repeats(plan, known) if known.get(item.item_id, NEVER_RUN).open]

    def turn(item: Item) -> tuple[bool, int]:
        standing = known.get(item.item_id, NEVER_RUN)
        return item.purpose == "retry", standing.backs - standing.interrupted

    return sorted(wanted, key=turn)


def _items_with_repeats(plan: Plan, known: dict[str, Standing]) -> Iterator[Item]:
    for item in plan.items:
        yield item
        retry = retry_of(item, known.get(item.item_id, NEVER_RUN))
        if retry is not None:
            yield retry


def _may_come_back(flight: InFlight, known: dict[str, Standing]) -> bool:
    """Whether some outcome of this trial would leave work: it is tried again, or owed a repeat."""
    is_retry = flight.item_id.split("/")[1:2] == ["retry"]
    return not is_retry or known.get(flight.item_id, NEVER_RUN).backs < MAX_BACKS


def _with_reason(item: Item, standing: Standing) -> Item:
    if standing.last is None:
        return item
    again = (
        f"{item.reason}; again, because trial {standing.last.trial_id} decided nothing ({standing.last.what})"
    )
    return msgspec.structs.replace(item, reason=again)
