"""One decoding step for one request: plain, or draft tree and verify. No time, no processes.

Greedy output with a tree is the output without one: the tree decides only how many of the target's choices
are taken in one step.
"""

from __future__ import annotations

from collections.abc import Callable

from .ddtree import verify
from .drafter import Drafter
from .model import ORDERS, NgramModel
from .requests import Request
from .tokenizer import Tokenizer

_FIRST_WORD = 257 + 97  # ids from here on are pieces of text rather than bytes or single characters


class BatchEngine:
    """The model with or without a drafter."""

    def __init__(self, model: NgramModel, drafter: Drafter | None) -> None:
        self.model = model
        self._drafter = drafter

    @property
    def tokenizer(self) -> Tokenizer:
        return self.model.tokenizer

    def first_token(self, request: Request) -> list[int]:
        """The token that the prefill gives."""
        return [self._chooser(request)([])]

    def step(self, request: Request) -> list[int]:
        """The tokens of one step: 1 without a drafter, else 1 to the block size."""
        if self._drafter is None:
            return [self._chooser(request)([])]
        tokens = verify(self._drafter.tree(request.context), self._chooser(request))
        _count(request, len(tokens) - 1)
        return tokens

    def stale_step(self, request: Request) -> list[int]:
        """A step whose graph replay read another step's tree metadata.

        No draft is accepted, and the token that comes out has nothing to do with the context; it is the same
        in every run.
        """
        if self._drafter is not None:
            _count(request, 0)
        mixed = len(request.context)
        for token in request.context[-3:]:
            mixed = (mixed * 6364136223846793005 + token + 1442695040888963407) & ((1 << 64) - 1)
        size = self.tokenizer.size
        low = _FIRST_WORD if size > 2 * _FIRST_WORD else 1
        return [low + (mixed >> 33) % (size - low)]

    def _chooser(self, request: Request) -> Callable[[list[int]], int]:
        context, temperature = request.context[-ORDERS[-1] :], request.params.temperature
        if temperature <= 0:
            return lambda accepted: self.model.greedy(context + accepted if accepted else context)
        return lambda accepted: self.model.sample(context + accepted, temperature, request.random.random())


def _count(request: Request, accepted: int) -> None:
    request.verify_calls += 1
    request.accepted[accepted] += 1
