"""Reading on: the greedy choice without a look-up, where the context leaves no doubt.

A model that has read its text goes on with it for long stretches. Where the context before a place of the
training text occurs nowhere else, the token at that place is the greedy choice: every longer context that
occurred ends at the same place. So a request that knows its place only has to read on, which costs a tenth
of a look-up. The choices are those of :meth:`NgramModel.greedy`; only the cost differs.
"""

from __future__ import annotations

from collections.abc import Sequence

from .model import ORDERS, NgramModel

_NEVER = 1 << 30


class Cursor:
    """Where a request reads: the next place of the training text, and how many tokens before it match."""

    __slots__ = ("length", "place")

    def __init__(self) -> None:
        self.place = -1
        self.length = 0

    def lose(self) -> None:
        """Forget the place, after tokens that were not this reader's."""
        self.place, self.length = -1, 0


class Reader:
    """Greedy choices over one model, for any number of cursors."""

    def __init__(self, model: NgramModel) -> None:
        self._model = model
        self._tokens: list[int] = model.index.tokens.tolist()
        self._enough: list[int] = model.index.shortest_unique(_NEVER).tolist()

    def next(self, context: Sequence[int], accepted: Sequence[int], cursor: Cursor) -> int:
        """The greedy token after ``context`` and ``accepted``; moves ``cursor`` past it."""
        place = cursor.place
        if cursor.length >= self._enough[place]:
            cursor.place = place + 1
            cursor.length += 1
            return self._tokens[place]
        tail = [*context[-ORDERS[-1] :], *accepted] if accepted else context
        choice = self._model.choose(tail)
        if 0 <= place < len(self._tokens) and self._tokens[place] == choice.token:
            cursor.place = place + 1
            cursor.length += 1
        else:
            cursor.place, cursor.length = choice.place, choice.length
        return choice.token
