"""The drafter: what may stand at each of the next positions, each position on its own.

Like a block diffusion drafter it predicts a whole block at once and knows nothing of the other positions'
outcome: P(token at distance j | the last few tokens), for j = 0 .. block_size - 2. It reads the target's
index with short contexts only, which makes it cheaper and worse than the target, as a drafter is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .ddtree import DraftTree, Marginal, build_tree
from .model import NgramModel

CONTEXT = 3  # tokens that the drafter sees
_PLACES = 32  # places of a context that it has "read"
# Share of unseen tokens at a context: smaller than the target's (1), as longer contexts are right more often
# than their counts say; measured on the load prompts (README, "Acceptance").
_DISCOUNT = 0.3
_LEFTOVER = 0.03  # mass below which shorter contexts are not asked
_MEMO = 60_000


class Drafter:
    """Draft trees of one shape (block size, budget, topk) over one model."""

    def __init__(self, model: NgramModel, block_size: int, budget: int, topk: int) -> None:
        self._model = model
        self._length = block_size - 1
        self._budget = budget
        self._topk = topk
        self._kept = max(8, 2 * topk)  # tokens of a table that can still reach the best topk
        self._distances = np.arange(self._length)
        self._columns: dict[tuple[int, int], _Columns | None] = {}
        self._trees: dict[tuple[int, ...], DraftTree] = {}

    def tree(self, context: Sequence[int]) -> DraftTree:
        """The draft tree after ``context``; the same for equal last ``CONTEXT`` tokens."""
        key = tuple(context[-CONTEXT:])
        tree = self._trees.get(key)
        if tree is None:
            tree = build_tree(self.marginals(key), self._budget, self._topk)
            if len(self._trees) > _MEMO:
                self._trees.clear()
            self._trees[key] = tree
        return tree

    def marginals(self, context: Sequence[int]) -> list[Marginal]:
        """For each position the best ``topk`` (token, log probability), best first.

        Ties go to what the longer context knows, then to the more frequent, then to the smaller id.
        """
        hashes = self._model.index.hashes(context)
        found = []
        for order in range(CONTEXT, 0, -1):
            value = hashes.get(order)
            columns = self._read(order, value) if value is not None else None
            if columns is not None:
                found.append(columns)
        return [self._position(found, distance) for distance in range(self._length)]

    def _position(self, found: list[_Columns], distance: int) -> Marginal:
        mixed: dict[int, float] = {}
        left = 1.0
        for columns in found:
            counts, scale, unseen = columns[distance]
            scale *= left
            if mixed:
                for token, count in counts:
                    mixed[token] = mixed.get(token, 0.0) + count * scale
            else:
                mixed = {token: count * scale for token, count in counts}
            left *= unseen
            if left < _LEFTOVER:
                break
        best = sorted(mixed, key=mixed.__getitem__, reverse=True)[: self._topk]
        return [(token, math.log(mixed[token])) for token in best]

    def _read(self, order: int, value: int) -> _Columns | None:
        """What followed one context, at each distance."""
        key = (order, value)
        if key in self._columns:
            return self._columns[key]
        tokens = self._model.index.tokens
        places = self._model.index.places(order, value, limit=_PLACES)
        result: _Columns | None = None
        if places is not None and len(places) == 1:  # the usual case for the longest context
            start = int(places[0])
            row = tokens[start : start + self._length].tolist()
            if len(row) == self._length:
                result = [([(token, 1)], *_ALONE) for token in row]
        elif places is not None:
            starts = places[places + self._length <= len(tokens)]
            if len(starts):
                rows = tokens[starts[:, None] + self._distances].T.tolist()
                result = [self._table(row) for row in rows]
        if len(self._columns) > _MEMO:
            self._columns.clear()
        self._columns[key] = result
        return result

    def _table(self, row: list[int]) -> _Table:
        counts: dict[int, int] = {}
        for token in row:
            counts[token] = counts.get(token, 0) + 1
        best = sorted([(-count, token) for token, count in counts.items()])[: self._kept]
        return ([(token, -negative) for negative, token in best], *_shares(len(row), len(counts)))


def _shares(total: int, kinds: int) -> tuple[float, float]:
    """(probability of one count, probability of what was not seen)."""
    unseen = _DISCOUNT * kinds
    return 1.0 / (total + unseen), unseen / (total + unseen)


_ALONE = _shares(1, 1)
# (the most frequent tokens with their counts, probability of one count, probability of the unseen)
_Table = tuple[list[tuple[int, int]], float, float]
# A table for each distance.
_Columns = list[_Table]
