"""Read an OpenAI chat completion: chunks that hold the new text only, and the usage at the end.

SGLang adds what verification did, when asked (`return_spec_tokens_details`): it stands in `sglext`. Reasoning
counts as output. Where only the last chunk tells how many tokens there were, they are spread evenly over the
chunks that held text.
"""

from __future__ import annotations

import time
from typing import Any, Mapping, Optional, Sequence

from .load_stream import (
    DONE,
    Exchange,
    Frames,
    StreamError,
    count,
    decoded,
    frame_data,
    raise_if_error,
    require_whole,
    take_finish,
    take_speculation,
)

_EXTRAS = ("usage", "sglext")
_TEXTS = ("reasoning_content", "content")


def payload(
    messages: Sequence[Mapping[str, Any]], max_tokens: int, model: str, stream: bool, is_sglang: bool
) -> dict[str, Any]:
    """A greedy chat request of `max_tokens` tokens, with what SGLang is asked beyond OpenAI's fields."""
    asked: dict[str, Any] = {
        "model": model,
        "messages": list(messages),
        "temperature": 0,
        "max_tokens": max_tokens,
        "stream": stream,
    }
    if stream:
        asked["stream_options"] = {"include_usage": True}
    if is_sglang:
        asked["ignore_eos"] = True
        asked["return_spec_tokens_details"] = True
        if stream:
            asked["stream_options"]["continuous_usage_stats"] = True
    return asked


class ChatReader(Frames):
    """A streamed chat completion."""

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(exchange)
        self._counted = True
        self._newest_extras: dict[str, Any] = {}

    def _take(self, frames: bytes, now: float) -> None:
        exchange = self._exchange
        before = len(self._pieces)
        tokens: Optional[int] = None
        try:
            for frame in frames.split(b"\n\n"):
                data = frame_data(frame)
                if data == DONE:
                    self.done = True
                elif data:
                    held = len(self._pieces)
                    counted = self._chunk(decoded(data))
                    if len(self._pieces) > held:  # the usage at the end is no count of a chunk
                        tokens = counted
        finally:
            if len(self._pieces) > before:
                self._counted = self._counted and tokens is not None
                exchange.tick(now, tokens if tokens is not None else len(self._pieces))

    def _chunk(self, answer: Mapping[str, Any]) -> Optional[int]:
        """Take one chunk in; tokens so far, where it says."""
        raise_if_error(answer)
        choices = answer.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            choice = choices[0]
            delta = choice.get("delta")
            if isinstance(delta, dict):
                for name in _TEXTS:
                    piece = delta.get(name)
                    if piece and isinstance(piece, str):
                        self._keep(piece)
            if choice.get("finish_reason"):
                take_finish(self._exchange, choice["finish_reason"])
        usage = answer.get("usage")
        for name in _EXTRAS:  # read at the end: each chunk's replace those of the one before
            if answer.get(name) is not None:
                self._newest_extras[name] = answer[name]
        return count(usage, "completion_tokens") if isinstance(usage, dict) else None

    def finish(self) -> None:
        """The stream has ended. Raises StreamError when the answer is not whole."""
        exchange = self._exchange
        exchange.text = "".join(self._pieces)
        take_extras(exchange, self._newest_extras)
        if exchange.tokens is None and self._pieces:
            exchange.tokens = len(self._pieces)
        require_whole(exchange, self.done)
        if not exchange.tick_times:
            exchange.tick(time.monotonic(), exchange.tokens or 0)
        elif not self._counted:
            share = (exchange.tokens or 0) / max(1, exchange.tick_tokens[-1])
            for at, pieces in enumerate(exchange.tick_tokens):
                exchange.tick_tokens[at] = round(pieces * share)


def take_whole(exchange: Exchange, answer: Mapping[str, Any]) -> None:
    """Read a chat completion that was not streamed. Raises StreamError when it is none."""
    raise_if_error(answer)
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise StreamError("bad_json", "the answer has no choices")
    message = choices[0].get("message")
    if isinstance(message, dict):
        exchange.text = "".join(str(message.get(name) or "") for name in _TEXTS)
    take_extras(exchange, answer)
    take_finish(exchange, choices[0].get("finish_reason"))


def take_extras(exchange: Exchange, answer: Mapping[str, Any]) -> None:
    """Usage, and what verification did, where a chunk or an answer has them."""
    usage = answer.get("usage")
    if isinstance(usage, dict):
        exchange.tokens = count(usage, "completion_tokens")
        exchange.prompt_tokens = count(usage, "prompt_tokens")
        details = usage.get("prompt_tokens_details")
        if isinstance(details, dict):
            exchange.cached_tokens = count(details, "cached_tokens")
    extension = answer.get("sglext")
    if isinstance(extension, dict):
        details = extension.get("spec_tokens_details")
        take_speculation(exchange, details if isinstance(details, dict) else extension)
