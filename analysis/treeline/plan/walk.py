"""Which cells of a slice are measured next: the walk along the border, confirmations and audits.

A probe is what a sheet asks for; who turns it into an item and in which order slices take turns stands in
``treeline.plan.search``.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from treeline.keys import Purpose
from treeline.plan.evidence import Evidence
from treeline.plan.sheet import AUDIT_OF, UNBOUNDED, ColumnState, Contradiction, Sheet, Side

# A first guess that was wrong in so many columns is not asked any more.
_TRUSTED = 2


@dataclass(frozen=True)
class Probe:
    """A cell that is to be measured, for which purpose and why."""

    budget: int
    maxreq: int
    purpose: Purpose
    ordinal: int
    reason: str


@dataclass(frozen=True)
class Guess:
    """Where another slice's border lies: budget -> the lowest limit that is bad there."""

    topk: int
    borders: Mapping[int, int]

    @classmethod
    def of(cls, sheet: Sheet) -> Guess:
        """The border of a slice whose walk is over."""
        return cls(
            sheet.slice.topk,
            {
                column.budget: column.boundary if column.alive else column.limits[0]
                for column in sheet.columns
            },
        )


def walk(sheet: Sheet, guess: Guess | None = None) -> list[Probe]:
    """The next step of the walk; several where a whole column is to be measured; none when it is over.

    Without a guess this is the saddleback walk: at most n + m - 1 steps on n budgets and m limits where
    failures are monotone, because every step rules out a row or a column, and a column that fails at every
    limit costs its neighbours one step each.
    """
    missed, before = 0, None
    for column in sheet.columns:
        if column.open:
            return (
                [*_measure_whole(sheet, column)] if column.whole else [_step(column, before, guess, missed)]
            )
        if guess is not None:
            expected = min(guess.borders.get(column.budget, column.boundary), column.ceiling)
            missed += expected != (column.boundary if column.alive else column.limits[0])
        before = column
    return []


def _measure_whole(sheet: Sheet, column: ColumnState) -> Iterator[Probe]:
    contradiction = next(found for found in sheet.contradictions if found.budget == column.budget)
    reason = (
        f"the whole column of budget {column.budget} is measured, because {in_words(contradiction)}, "
        f"although its neighbours imply {contradiction.implied}"
    )
    for limit in column.open:
        yield Probe(column.budget, limit, "explore", 2, reason)


def in_words(contradiction: Contradiction) -> str:
    """What was seen, such as ``maxreq 64 of budget 16 was seen bad by an audit``."""
    by = " by an audit" if contradiction.by_audit else ""
    where = f"maxreq {contradiction.maxreq} of budget {contradiction.budget}"
    return f"{where} was seen {seen_as(contradiction)}{by}"


def seen_as(contradiction: Contradiction) -> str:
    """How its cell was measured, for people."""
    return "bad" if contradiction.seen == "weak" else contradiction.seen


def _step(column: ColumnState, before: ColumnState | None, guess: Guess | None, missed: int) -> Probe:
    highest_good, lowest_bad, undecided = column.highest_good, column.lowest_bad, column.open
    border = guess.borders.get(column.budget) if guess is not None and missed < _TRUSTED else None
    disproved = border is not None and (highest_good >= border or lowest_bad < border)
    if border is not None and not disproved:
        limit = _by_guess(undecided, border)
        shown = "above all limits" if border == UNBOUNDED else f"at maxreq {border}"
        why = f"first guess from topk {guess.topk if guess else 0}: there the border lies {shown}"
    elif column.after_dead and before is not None and not highest_good and undecided[0] == column.limits[0]:
        limit = undecided[0]
        why = (
            f"budget {before.budget} fails at every limit, which says nothing about larger budgets: "
            "the smallest limit first"
        )
    else:
        limit = undecided[-1]
        why = _why_highest(column, before)
    return Probe(column.budget, limit, "explore", 1, f"walk: {why}")


def _by_guess(undecided: tuple[int, ...], border: int) -> int:
    """The limit beside the guessed border: the lowest that should fail, else the highest that works."""
    failing = [limit for limit in undecided if limit >= border]
    return failing[0] if failing else undecided[-1]


def _why_highest(column: ColumnState, before: ColumnState | None) -> str:
    failed = [limit for limit, mark in column.marks.items() if mark != "good"]
    if failed:
        return f"budget {column.budget} does not work at maxreq {min(failed)}, so the next smaller limit"
    if before is None:
        return "smallest budget, largest limit"
    if column.ceiling == UNBOUNDED:
        return "the largest limit, because no smaller budget failed"
    return f"the largest limit that a smaller budget does not rule out (it fails from {column.ceiling} on)"


def confirmations(sheet: Sheet, evidence: Evidence) -> list[Probe]:
    """Cells whose failure decides others and was seen once: each is repeated once.

    These are the corners of the bad region: the lowest bad limit of a column where no smaller budget implies
    it already, and in a contradicted column every failure below a limit that works.
    """
    probes = []
    for column in sheet.columns:
        if column.open:
            break
        for limit in _corners(column):
            cell = evidence.cell(sheet.slice.key(column.budget, limit).slug)
            standing = evidence.items_of(cell.cell).get(("confirm", 1))
            if cell.fails == 1 and cell.goods == 0 and (standing is None or standing.open):
                why = f"a corner of the bad cells, the lowest that fails at budget {column.budget}"
                if column.whole and limit < column.highest_good:
                    why = f"it failed although budget {column.budget} works at a larger limit"
                probes.append(Probe(column.budget, limit, "confirm", 1, f"{why}; seen once so far"))
    return probes


def _corners(column: ColumnState) -> list[int]:
    bad = [limit for limit, mark in column.marks.items() if mark == "bad"]
    corners = {limit for limit in bad if column.whole and limit < column.highest_good}
    border = column.boundary if column.whole else column.lowest_bad
    if border in bad and border < column.ceiling:
        corners.add(border)
    return sorted(corners)


def audits(sheet: Sheet, share: float, salt: str) -> list[Probe]:
    """Implied cells that are to be measured all the same: a share of each side, at least one each.

    Which ones is decided by a hash, so that it is a random sample that can be replayed.
    """
    if share <= 0:
        return []
    probes: list[Probe] = []
    sides: tuple[Side, ...] = ("good", "bad")
    for side in sides:
        left = [
            (column.budget, limit)
            for column in sheet.columns
            for limit, implied in column.implied.items()
            if implied == side
        ]
        done = sum(of == side for of in sheet.audited.values())
        wanted = math.ceil(share * (len(left) + done) - 1e-9) - done
        if wanted <= 0 or not left:
            continue
        chosen = sorted(left, key=lambda cell: _lot(sheet, cell, salt))[:wanted]
        total = len(left) + done
        for number, (budget, limit) in enumerate(chosen, start=done + 1):
            reason = f"{number} of {done + wanted} out of {total} cells implied {side}, drawn by lot"
            probes.append(Probe(budget, limit, "audit", AUDIT_OF[side], reason))
    return probes


def _lot(sheet: Sheet, cell: tuple[int, int], salt: str) -> bytes:
    part = sheet.slice
    text = f"{salt}/{part.topk}/{part.family}/{cell[0]}/{cell[1]}"
    return hashlib.sha256(text.encode()).digest()
