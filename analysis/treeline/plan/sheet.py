"""One slice as a sheet of columns: what was measured, what that implies, and what contradicts it.

A column is one budget with its request limits, ascending. Along maxreq closure is certain: a smaller limit
captures a subset of the same batch sizes, so what works at one limit works below it, and what fails at one
fails above it. Along budget it is a prior only: what fails at some limit is taken to fail there for larger
budgets too, unless the smaller budget fails at every limit, which says nothing about larger ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from treeline.keys import Column, Slice
from treeline.plan.cells import Cell, ItemName, Standing, judge
from treeline.plan.evidence import Evidence, Place, group_of

Mark = Literal["good", "bad", "weak", "mixed", "unknown"]
"""A measured cell. ``weak``: bad, and it closes nothing. ``unknown``: its trials decided nothing."""
Side = Literal["good", "bad"]
UNBOUNDED = 1 << 60
"""A border that no limit reaches."""

Marks = Mapping[int, Mark]

# Ordinals of audits: which side was implied for the cell when it was drawn stands in the item's name, because
# what is learned later may imply something else.
AUDIT_OF: dict[Side, int] = {"good": 1, "bad": 2}
BAD: Mark = "bad"


@dataclass(frozen=True)
class Contradiction:
    """A cell that was measured otherwise than its neighbours imply."""

    budget: int
    maxreq: int
    implied: Side
    seen: Mark
    by_audit: bool


@dataclass(frozen=True)
class ColumnState:
    """What is known of one column.

    Attributes:
        marks: measured cells by maxreq.
        implied: cells that were not measured and follow from others.
        open: limits still to be decided, ascending.
        ceiling: from this limit on, the budgets to the left imply that it fails (a prior).
        boundary: the lowest limit taken as bad; UNBOUNDED where none is.
        alive: some limit works.
        after_dead: the column to the left fails at every limit.
        whole: nothing is implied here, every cell is measured, because a trial contradicted what was implied.
        conflict: maxreq and implied side of a measured cell that contradicts others without an audit.
    """

    budget: int
    limits: tuple[int, ...]
    marks: Marks
    implied: Mapping[int, Side]
    open: tuple[int, ...]
    ceiling: int
    boundary: int
    alive: bool
    after_dead: bool
    whole: bool
    conflict: tuple[int, Side] | None = None

    @property
    def lowest_bad(self) -> int:
        """The lowest limit that was measured as bad for certain; UNBOUNDED where none was."""
        return min((limit for limit, mark in self.marks.items() if mark == "bad"), default=UNBOUNDED)

    @property
    def highest_good(self) -> int:
        """The highest limit that was measured as good; 0 where none was."""
        return max((limit for limit, mark in self.marks.items() if mark == "good"), default=0)


@dataclass(frozen=True)
class Sheet:
    """One slice: its columns from the smallest budget to the largest, and its audits."""

    slice: Slice
    columns: tuple[ColumnState, ...]
    audited: Mapping[Place, Side] = field(default_factory=dict)
    """Audited cells (budget, maxreq) and the side that was implied for each."""
    contradictions: tuple[Contradiction, ...] = ()
    owed: tuple[Place, ...] = ()
    """Cells (budget, maxreq) that failed without a cause and are owed a repeat."""

    @property
    def decided(self) -> bool:
        """Whether the walk is over: no cell is open."""
        return not any(column.open for column in self.columns)

    def clean_audits(self) -> int:
        """Audits that found what was implied."""
        wrong = {(found.budget, found.maxreq) for found in self.contradictions if found.by_audit}
        return sum(cell not in wrong for cell in self.audited)


def close(
    columns: Sequence[Column], marks: Mapping[Place, Mark], whole: Mapping[int, int] | None = None
) -> list[ColumnState]:
    """What the measured cells imply, from left to right.

    Args:
        columns: budgets ascending.
        marks: by budget and maxreq; others than those of the columns do not count.
        whole: budgets whose column is measured as a whole, with the border that was implied before.
    """
    by_budget: dict[int, dict[int, Mark]] = {column.budget: {} for column in columns}
    for (budget, limit), mark in marks.items():
        if budget in by_budget:
            by_budget[budget][limit] = mark
    states: list[ColumnState] = []
    ceiling, after_dead = UNBOUNDED, False
    for column in columns:
        seen = by_budget[column.budget]
        state = _column(column, seen, ceiling, after_dead, (whole or {}).get(column.budget))
        states.append(state)
        # A column that is bad throughout closes nothing to its right.
        ceiling = state.boundary if state.alive else ceiling
        after_dead = not state.alive
    return states


def _column(column: Column, marks: Marks, ceiling: int, after_dead: bool, border: int | None) -> ColumnState:
    highest_good, lowest_bad = 0, UNBOUNDED
    for limit, mark in marks.items():
        if mark == "good" and limit > highest_good:
            highest_good = limit
        elif mark == "bad" and limit < lowest_bad:
            lowest_bad = limit
    conflict: tuple[int, Side] | None = None
    if lowest_bad < highest_good:
        conflict = (lowest_bad, "good")
    elif highest_good >= ceiling:
        conflict = (highest_good, "bad")
    implied: dict[int, Side] = {}
    undecided: list[int] = []
    if border is not None or conflict:
        undecided = [limit for limit in column.maxreqs if limit not in marks]
        boundary = best_step(column.maxreqs, marks, UNBOUNDED if border is None else border)
        alive = boundary > column.maxreqs[0]
    else:
        for limit in column.maxreqs:
            if limit in marks:
                continue
            if limit < highest_good:
                implied[limit] = "good"
            elif limit > lowest_bad or limit >= ceiling:
                implied[limit] = "bad"
            else:
                undecided.append(limit)
        boundary = min(lowest_bad, ceiling)
        alive = highest_good > 0
    return ColumnState(
        budget=column.budget,
        limits=column.maxreqs,
        marks=marks,
        implied=implied,
        open=tuple(undecided),
        ceiling=ceiling,
        boundary=boundary,
        alive=alive,
        after_dead=after_dead,
        whole=border is not None or conflict is not None,
        conflict=conflict,
    )


def best_step(limits: Sequence[int], marks: Marks, usual: int = UNBOUNDED) -> int:
    """The border that fits the measured cells of a column with the fewest exceptions.

    So a single odd cell neither opens nor closes anything for the columns to the right. Where several borders
    fit alike it is ``usual``, the one without the odd cell; else the highest, which implies the least.
    """
    good = [marks.get(limit) == "good" for limit in limits]
    bad = [marks.get(limit) == "bad" for limit in limits]
    wrong = [sum(bad[:step]) + sum(good[step:]) for step in range(len(limits) + 1)]
    fitting = [
        limits[step] if step < len(limits) else UNBOUNDED
        for step, exceptions in enumerate(wrong)
        if exceptions == min(wrong)
    ]
    return usual if usual in fitting else fitting[-1]


def survey(
    part: Slice,
    evidence: Evidence,
    known_bad: Mapping[str, str] | None = None,
    assumed: Mapping[str, Mark] | None = None,
) -> Sheet:
    """Read one slice from the evidence.

    Args:
        known_bad: cells that the crash memory knows, by cell.
        assumed: cells in flight with the outcome that is expected of them.
    """
    group, _ = group_of(part.key(1, 1).slug)
    marks: dict[Place, Mark] = {}
    for slug, mark in (dict.fromkeys(known_bad or (), BAD) | dict(assumed or {})).items():
        its_group, place = group_of(slug)
        if its_group == group:
            marks[place] = mark
    audited: dict[Place, Side] = {}
    owed: list[Place] = []
    walked = dict(marks)
    found: list[Contradiction] = []
    for place, slug in evidence.group(group).items():
        cell, items = evidence.cell(slug), evidence.items_of(slug)
        if cell.owed is not None:
            owed.append(place)
        seen = _mark(cell)
        if seen is not None:
            marks[place] = seen
            if _settled(items, ("explore", 1)):
                walked[place] = seen
        for side, ordinal in AUDIT_OF.items():
            by_audit = _seen_by_audit(slug, items, ("audit", ordinal))
            if by_audit is None:
                continue
            audited[place] = side
            if by_audit != side and not (by_audit == "weak" and side == "bad"):
                found.append(Contradiction(*place, side, by_audit, by_audit=True))
    # The borders as the walk alone has them: an odd cell that an audit met does not move them.
    borders = {state.budget: state.boundary for state in close(part.columns, walked)} if found else {}
    return _sheet(part, marks, audited, found, owed, borders)


def _seen_by_audit(slug: str, items: Mapping[ItemName, Standing], audit: ItemName) -> Mark | None:
    """What an audit and its repeat saw; None where there was none or it decided nothing."""
    if not _settled(items, audit):
        return None
    own = {name: standing for name, standing in items.items() if name == audit or name[0] == "retry"}
    seen = _mark(judge(slug, own))
    return None if seen == "unknown" else seen


def _sheet(
    part: Slice,
    marks: Mapping[Place, Mark],
    audited: Mapping[Place, Side],
    found: Sequence[Contradiction],
    owed: Sequence[Place],
    borders: Mapping[int, int],
) -> Sheet:
    whole = {contradiction.budget: borders[contradiction.budget] for contradiction in found}
    columns = close(part.columns, marks, whole)
    others = [
        Contradiction(column.budget, limit, side, column.marks[limit], by_audit=False)
        for column in columns
        if column.conflict is not None and column.budget not in whole
        for limit, side in [column.conflict]
    ]
    return Sheet(part, tuple(columns), audited, (*found, *others), tuple(owed))


def _settled(items: Mapping[ItemName, Standing], name: ItemName) -> bool:
    standing = items.get(name)
    return standing is not None and standing.effect is not None


def _mark(cell: Cell) -> Mark | None:
    if cell.state == "bad":
        return "bad" if cell.closes else "weak"
    if cell.state in ("good", "mixed", "unknown"):
        return cell.state
    return None
