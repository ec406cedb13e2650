"""What the trials of a cell say together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from treeline.keys import Item, Purpose
from treeline.plan.history import Past
from treeline.records import Effect

CellState = Literal["open", "good", "bad", "mixed", "unknown", "implied_good", "implied_bad", "known_bad"]
# States of cells that should not be served; a cell that is not decided is not among them.
BAD_STATES: frozenset[CellState] = frozenset(("bad", "mixed", "unknown", "implied_bad", "known_bad"))

# An item whose trial decided nothing goes back this many times; after that its cell is unknown.
MAX_BACKS = 3

_DECIDE: frozenset[Effect] = frozenset(("good", "bad", "repeat", "repeat_transient"))
# These say nothing about the cell, but the item is done: repeating it would give the same answer until
# somebody changes something, so only a new run tries again.
_DONE_FOR_THIS_RUN: frozenset[Effect] = frozenset(("dialect", "setup"))
_REPEAT: frozenset[Effect] = frozenset(("repeat", "repeat_transient"))
# Trials that first decide a cell. Confirmations and anchors only add to what is known of it.
_DECIDING: frozenset[str] = frozenset(("explore", "audit", "baseline"))

ItemName = tuple[Purpose, int]


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
    """Verdict on one cell.

    Attributes:
        closes: its badness may be taken to hold for larger cells too.
        goods: trials of it that worked.
        fails: trials of it that failed.
        owed: the repeat that its trials ask for (purpose and ordinal), or None.
    """

    cell: str
    state: CellState
    reason: str
    closes: bool = False
    goods: int = 0
    fails: int = 0
    owed: ItemName | None = None


NEVER_RUN = Standing(effect=None, backs=0, interrupted=0, last=None)
NOTHING: Mapping[ItemName, Standing] = {}


def standing_of(trials: Sequence[Past]) -> Standing:
    """Standing of one item after these trials of it, in their order; at least one."""
    settled = next((trial for trial in trials if _settles(trial)), None)
    if settled is not None and len(trials) == 1:
        return Standing(settled.effect, 0, 0, settled)
    undecided = [trial for trial in trials if not _settles(trial) and trial.effect not in _DONE_FOR_THIS_RUN]
    return Standing(
        effect=settled.effect if settled else None,
        backs=len(undecided),
        interrupted=sum(trial.effect is None for trial in undecided),
        last=settled or trials[-1],
    )


def retry_of(item: Item, standing: Standing) -> Item | None:
    """The one repeat that an item is owed, or None."""
    if item.purpose not in _DECIDING or standing.effect not in _REPEAT or standing.last is None:
        return None
    reason = (
        f"once more, because trial {standing.last.trial_id} ended without a cause that the settings explain"
    )
    return item.again("retry", item.ordinal + 1, f"{reason} ({standing.last.what})")


def judge(cell: str, items: Mapping[ItemName, Standing]) -> Cell:
    """What the items of one cell say together: its state, how often it worked and failed, what is owed."""
    goods = sum(standing.effect == "good" for standing in items.values())
    fails = sum(standing.effect in ("bad", *_REPEAT) for standing in items.values())
    owed = next((found for name in items if (found := _owed(name, items)) is not None), None)
    if goods and fails:
        once = goods == fails == 1
        reason = "failed once and worked once" if once else f"failed {fails} of {goods + fails} times"
        return Cell(cell, "mixed", reason, goods=goods, fails=fails, owed=owed)
    if goods:
        return Cell(cell, "good", "worked" if goods == 1 else f"worked {goods} times", goods=goods, owed=owed)
    if owed is not None:
        return Cell(cell, "open", "is to be repeated once", fails=fails, owed=owed)
    if fails:
        return _failed(cell, fails, items)
    return _undecided(cell, items)


def _owed(name: ItemName, items: Mapping[ItemName, Standing]) -> ItemName | None:
    purpose, ordinal = name
    if purpose not in _DECIDING or items[name].effect not in _REPEAT:
        return None
    retry: ItemName = ("retry", ordinal + 1)
    return retry if items.get(retry, NEVER_RUN).open else None


def _failed(cell: str, fails: int, items: Mapping[ItemName, Standing]) -> Cell:
    # A confirmation that fails adds to what is known; what kind of failure it was is told by the others.
    deciding = (*_DECIDING, "retry")
    effects = {standing.effect for (purpose, _), standing in items.items() if purpose in deciding}
    if fails == 1 and "bad" not in effects:
        return Cell(cell, "unknown", "failed once, and its repeat decided nothing", fails=fails)
    reason = "failed" if fails == 1 else "failed twice" if fails == 2 else f"failed {fails} times"
    if "bad" not in effects:
        reason += ", cause unknown"
    return Cell(cell, "bad", reason, closes="repeat_transient" not in effects, fails=fails)


def _undecided(cell: str, items: Mapping[ItemName, Standing]) -> Cell:
    if not items:
        return Cell(cell, "open", "not run yet")
    # An item that may not be run again ends the cell: another of its items that was given up, such as a step
    # taken ahead, would not be asked for any more.
    if all(standing.open for standing in items.values()):
        return Cell(cell, "open", "is to be run again")
    backs = next((standing.backs for standing in items.values() if standing.exhausted), 0)
    said = f"{backs} trials of it decided nothing" if backs else "its trial says nothing about the cell"
    return Cell(cell, "unknown", said)


def _settles(trial: Past) -> bool:
    return trial.effect in _DECIDE or (trial.effect in _DONE_FOR_THIS_RUN and trial.this_run)
