"""One request inside the scheduler: its tokens, its text, and when it is finished."""

from __future__ import annotations

import codecs
import random
import zlib
from array import array
from typing import Any

from .follow import Cursor
from .messages import Generate, Progress, TokenLogprobs
from .tokenizer import EOS, Tokenizer


class Request:
    """Grows by the tokens of each step; cuts them at the limit, the end marker or a stop text.

    ``context`` is what the model goes on from; ``shown`` are the tokens that the client gets. They differ
    only under a fault profile.
    """

    def __init__(self, generate: Generate, tokenizer: Tokenizer, block_size: int, seed: int) -> None:
        self.rid = generate.rid
        self.params = generate.params
        self.context = list(generate.ids)
        self.prompt_tokens = len(generate.ids)
        self.shown: list[int] = []
        self.fingerprint = zlib.crc32(array("I", generate.ids).tobytes())
        self.cursor = Cursor()
        self.cached_tokens = 0
        self.verify_calls = 0
        self.accepted = [0] * block_size  # histogram: drafts accepted per verify call
        self.logprobs: list[TokenLogprobs] = []
        self.finish: dict[str, Any] | None = None
        given = generate.params.seed
        self.random = random.Random(seed if given is None else given)  # noqa: S311  (sampling, not secrets)
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""
        self._fresh: list[int] = []
        self._news = ""
        self._whole = False

    @property
    def completion_tokens(self) -> int:
        """Tokens that the client got."""
        return len(self.shown)

    def extend(self, tokens: list[int], shown: list[int] | None = None) -> None:
        """Take the tokens of one step; ``shown`` stands in for them towards the client."""
        if self.finish is not None:
            return
        fresh = self._fresh
        began = len(fresh)
        room = self.params.max_new_tokens - len(self.shown)
        for token, visible in zip(tokens[:room], tokens if shown is None else shown, strict=False):
            self.context.append(token)
            fresh.append(visible)
            if visible == EOS and not self.params.ignore_eos:
                self.finish = {"type": "stop", "matched": EOS}
                break
        new = fresh[began:]
        self.shown += new
        if self.finish is None and len(self.shown) >= self.params.max_new_tokens:
            self.finish = {"type": "length", "length": len(self.shown)}
        del self.logprobs[len(self.shown) :]
        before = len(self._text)
        fresh_text = self._decoder.decode(self._tokenizer.decode_bytes(new), self.finish is not None)
        self._news += fresh_text
        self._text += fresh_text
        if self.params.stop:
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
            self.logprobs[-len(self._fresh) :] if self._fresh and self.logprobs else [],
        )
        self._fresh, self._news = [], ""
        return out
