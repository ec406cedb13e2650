"""One decoding step for one request: plain, or draft tree and verify. No time, no processes.

Greedy output with a tree is the output without one: the tree decides only how many of the target's choices
are taken in one step. Sampling is as lossless: drafts are fixed before the target is asked, so accepting a
draft with its probability under the target and else taking what is left is the same as drawing from the
target and looking whether the draft is that token. With the same seed even the tokens are the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from .ddtree import verify
from .drafter import Drafter
from .follow import Reader
from .messages import TokenLogprobs
from .model import ORDERS, NgramModel
from .requests import Request
from .tokenizer import Tokenizer

_FIRST_WORD = 257 + 97  # ids from here on are pieces of text rather than bytes or single characters


class BatchEngine:
    """The model with or without a drafter."""

    def __init__(self, model: NgramModel, drafter: Drafter | None) -> None:
        self.model = model
        self._drafter = drafter
        self._reader = Reader(model)

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
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

    def bonus_step(self, request: Request) -> list[int]:
        """A step whose drafts are all refused: the target's own token, which is right."""
        if self._drafter is not None:
            _count(request, 0)
        return [self._chooser(request)([])]

    def stale_step(self, request: Request) -> list[int]:
        """A step whose graph replay read another step's tree metadata.

        No draft is accepted, and the token that comes out has nothing to do with the context; it is the same
        in every run.
        """
        if self._drafter is not None:
            _count(request, 0)
        request.cursor.lose()
        mixed = len(request.context)
        for token in request.context[-3:]:
            mixed = (mixed * 6364136223846793005 + token + 1442695040888963407) & ((1 << 64) - 1)
        if request.params.top_logprobs is not None:
            request.logprobs.append((math.log(1e-4), []))
        return [self.nonsense(mixed >> 33)]

    def nonsense(self, number: int) -> int:
        """A piece of text that follows from ``number`` alone."""
        size = self.tokenizer.size
        low = _FIRST_WORD if size > 2 * _FIRST_WORD else 1
        return low + number % (size - low)

    def _chooser(self, request: Request) -> Callable[[list[int]], int]:
        context, temperature = request.context, request.params.temperature
        if temperature <= 0:
            reader, cursor = self._reader, request.cursor

            def choose(accepted: list[int]) -> int:
                return reader.next(context, accepted, cursor)
        else:
            model, uniform = self.model, request.random.random
            tail = context[-ORDERS[-1] :]

            def choose(accepted: list[int]) -> int:
                return model.sample(tail + accepted, temperature, uniform())

        if request.params.top_logprobs is None:
            return choose
        return self._with_logprobs(choose, request)

    def _with_logprobs(
        self, choose: Callable[[list[int]], int], request: Request
    ) -> Callable[[list[int]], int]:
        tail = request.context[-ORDERS[-1] :]

        def noting(accepted: list[int]) -> int:
            token = choose(accepted)
            request.logprobs.append(self._logprobs(tail + accepted, token, request.params.top_logprobs or 0))
            return token

        return noting

    def _logprobs(self, context: list[int], token: int, count: int) -> TokenLogprobs:
        """Of the distribution at temperature 1."""
        found = self.model.distribution(context)
        total = math.log(sum(found.values()))
        best = sorted((-value, other) for other, value in found.items())[:count]
        own = math.log(found[token]) - total if token in found else math.log(1e-9)
        return own, [(math.log(-negative) - total, other) for negative, other in best]


def _count(request: Request, accepted: int) -> None:
    request.verify_calls += 1
    request.accepted[accepted] += 1
