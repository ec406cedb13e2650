"""What the history says, by item and by cell; built once for a question, or kept and added to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from treeline.keys import Purpose
from treeline.plan.cells import NEVER_RUN, NOTHING, Cell, ItemName, Standing, judge, standing_of
from treeline.plan.history import Past

_NO_PLACES: Mapping[tuple[int, int], str] = {}

Place = tuple[int, int]
"""Budget and maxreq of a cell within its slice."""


def group_of(cell: str) -> tuple[str, Place]:
    """A cell's slice, as ``k8-bs8-g1``, and its place there; the inverse of ``RestartKey.slug``."""
    budget, topk, maxreq, rest = cell.split("-", 3)
    return f"{topk}-{rest}", (int(budget[1:]), int(maxreq[1:]))


class Evidence:
    """Standings of items and verdicts on cells. ``add`` one trial, or build it ``of`` a history."""

    def __init__(self) -> None:
        self._runs: dict[str, list[Past]] = {}
        self._items: dict[str, Standing] = {}
        self._by_cell: dict[str, dict[ItemName, Standing]] = {}
        self._verdicts: dict[str, Cell] = {}
        self._groups: dict[str, dict[Place, str]] = {}

    @classmethod
    def of(cls, history: Iterable[Past]) -> Evidence:
        """Everything that a history says."""
        evidence = cls()
        for past in history:
            evidence._note(past)
        for item_id in evidence._runs:
            evidence._stand(item_id)
        return evidence

    def add(self, past: Past) -> None:
        """One more trial that is over."""
        self._note(past)
        self._stand(past.item_id)

    def standing(self, item_id: str) -> Standing:
        """Where one item stands."""
        return self._items.get(item_id, NEVER_RUN)

    def items_of(self, cell: str) -> Mapping[ItemName, Standing]:
        """Standings of the items of one cell that were run, by purpose and ordinal."""
        return self._by_cell.get(cell, NOTHING)

    def cell(self, cell: str) -> Cell:
        """The verdict on one cell."""
        found = self._verdicts.get(cell)
        if found is None:
            found = self._verdicts[cell] = judge(cell, self.items_of(cell))
        return found

    def group(self, name: str) -> Mapping[Place, str]:
        """Cells of one slice that were run at all (its name as ``group_of`` gives it), by their places."""
        return self._groups.get(name, _NO_PLACES)

    def past_of(self, item_id: str) -> tuple[Past, ...]:
        """The trials of one item that are over, in their order."""
        return tuple(self._runs.get(item_id, ()))

    def _note(self, past: Past) -> None:
        self._runs.setdefault(past.item_id, []).append(past)

    def _stand(self, item_id: str) -> None:
        standing = self._items[item_id] = standing_of(self._runs[item_id])
        cell, purpose, ordinal = item_id.rsplit("/", 2)
        if cell not in self._by_cell:
            group, place = group_of(cell)
            self._groups.setdefault(group, {})[place] = cell
        self._by_cell.setdefault(cell, {})[(cast(Purpose, purpose), int(ordinal))] = standing
        self._verdicts.pop(cell, None)
