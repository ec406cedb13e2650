"""One request inside the scheduler: its tokens, its text, and when it is finished."""

from __future__ import annotations

import codecs
import random
from typing import Any

from .messages import Generate, Progress
from .tokenizer import EOS, Tokenizer


class Request:
    """Grows by the tokens of each step; cuts them at the limit, the end marker or a stop text."""

    def __init__(self, generate: Generate, tokenizer: Tokenizer, block_size: int, seed: int) -> None:
        self.rid = generate.rid
        self.params = generate.params
        self.context = list(generate.ids)
        self.prompt_tokens = len(generate.ids)
        self.cached_tokens = 0
        self.verify_calls = 0
        self.accepted = [0] * block_size  # histogram: drafts accepted per verify call
        self.finish: dict[str, Any] | None = None
        self.random = random.Random(seed)  # noqa: S311  (sampling, not secrets)
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""
        self._fresh: list[int] = []
        self._news = ""
        self._whole = False

    @property
    def completion_tokens(self) -> int:
        return len(self.context) - self.prompt_tokens

    def extend(self, tokens: list[int]) -> None:
        """Take the tokens of one step."""
        if self.finish is not None:
            return
        for token in tokens:
            self.context.append(token)
            self._fresh.append(token)
            if token == EOS and not self.params.ignore_eos:
                self.finish = {"type": "stop", "matched": EOS}
                break
            if self.completion_tokens >= self.params.max_new_tokens:
                self.finish = {"type": "length", "length": self.completion_tokens}
                break
        self._news = self._decoder.decode(self._tokenizer.decode_bytes(self._fresh), self.finish is not None)
        before = len(self._text)
        self._text += self._news
        self._cut_at_stop(before)

    def _cut_at_stop(self, before: int) -> None:
        # A stop text may begin in the text of an earlier step.
        for stop in self.params.stop:
            at = self._text.find(stop, max(0, before - len(stop) + 1))
            if at >= 0:
                self._text = self._news = self._text[:at]
                self._whole = True
                self.finish = {"type": "stop", "matched": stop}
                return

    def abort(self) -> None:
        """End it without an answer."""
        self.finish = {"type": "abort", "message": "The request was aborted."}

    def progress(self) -> Progress:
        """The news since the last call."""
        out = Progress(
            self.rid,
            self._news,
            self._whole,
            self._fresh,
            self.verify_calls,
            list(self.accepted),
            self.cached_tokens,
            self.finish,
        )
        self._fresh, self._news = [], ""
        return out
