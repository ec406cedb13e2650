"""What the trials of a cell say together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from treeline.keys import Item, Plan
from treeline.plan.history import Past
from treeline.records import Effect

CellState = Literal["open", "good", "bad", "mixed", "unknown"]

# An item whose trial decided nothing goes back this many times; after that its cell is unknown.
MAX_BACKS = 3

_DECIDE: frozenset[Effect] = frozenset(("good", "bad", "repeat", "repeat_transient"))
# These say nothing about the cell, but the item is done: repeating it would give the same answer until
# somebody changes something, so only a new run tries again.
_DONE_FOR_THIS_RUN: frozenset[Effect] = frozenset(("dialect", "setup"))
_REPEAT: frozenset[Effect] = frozenset(("repeat", "repeat_transient"))


@dataclass(frozen=True)
class Standing:
    """Where one item stands: the effect that settled it (None: not settled) and its undecided trials."""

    effect: Effect | None
    backs: int
    interrupted: int
    last: Past | None

    @property
    def exhausted(self) -> bool:
        """It went back as often as it may."""
        return self.effect is None and self.backs > MAX_BACKS

    @property
    def open(self) -> bool:
        """It still has to be run."""
        return self.effect is None and not self.exhausted


@dataclass(frozen=True)
class Cell:
    """Verdict on one cell. ``closes``: its badness may be taken to hold for larger cells too."""

    cell: str
    state: CellState
    reason: str
    closes: bool = False


def standings(history: Iterable[Past]) -> dict[str, Standing]:
    """Standing of every item that was run at all, by item id."""
    runs: dict[str, list[Past]] = {}
    for past in history:
        runs.setdefault(past.item_id, []).append(past)
    return {item_id: _standing(trials) for item_id, trials in runs.items()}


NEVER_RUN = Standing(effect=None, backs=0, interrupted=0, last=None)


def retry_of(item: Item, standing: Standing) -> Item | None:
    """The one repeat that an item is owed, or None."""
    if item.purpose == "retry" or standing.effect not in _REPEAT or standing.last is None:
        return None
    reason = (
        f"once more, because trial {standing.last.trial_id} ended without a cause that the settings explain"
    )
    return item.again("retry", item.ordinal + 1, f"{reason} ({standing.last.what})")


def cells(plan: Plan, history: Sequence[Past]) -> dict[str, Cell]:
    """What is known about every planned cell, by cell."""
    known = standings(history)
    return {item.cell: _cell(item, known) for item in plan.items if item.purpose == "explore"}


def _standing(trials: Sequence[Past]) -> Standing:
    settled = next((trial for trial in trials if _settles(trial)), None)
    undecided = [trial for trial in trials if not _settles(trial) and trial.effect not in _DONE_FOR_THIS_RUN]
    return Standing(
        effect=settled.effect if settled else None,
        backs=len(undecided),
        interrupted=sum(trial.effect is None for trial in undecided),
        last=settled or trials[-1],
    )


def _settles(trial: Past) -> bool:
    return trial.effect in _DECIDE or (trial.effect in _DONE_FOR_THIS_RUN and trial.this_run)


def _cell(item: Item, known: dict[str, Standing]) -> Cell:
    first = known.get(item.item_id, NEVER_RUN)
    retry = retry_of(item, first)
    if retry is None:
        return _once(item.cell, first)
    second = known.get(retry.item_id, NEVER_RUN)
    if second.open:
        return Cell(item.cell, "open", "is to be repeated once")
    if second.effect == "good":
        return Cell(item.cell, "mixed", "failed once and worked once")
    if second.effect in ("bad", "repeat", "repeat_transient"):
        transient = "repeat_transient" in (first.effect, second.effect)
        reason = "failed twice" if second.effect == "bad" else "failed twice, cause unknown"
        return Cell(item.cell, "bad", reason, closes=not transient)
    return Cell(item.cell, "unknown", "failed once, and its repeat decided nothing")


def _once(cell: str, standing: Standing) -> Cell:
    if standing.open:
        return Cell(cell, "open", "not run yet" if standing.last is None else "is to be run again")
    if standing.effect == "good":
        return Cell(cell, "good", "worked")
    if standing.effect == "bad":
        return Cell(cell, "bad", "failed", closes=True)
    if standing.exhausted:
        return Cell(cell, "unknown", f"{standing.backs} trials of it decided nothing")
    return Cell(cell, "unknown", "its trial says nothing about the cell")
