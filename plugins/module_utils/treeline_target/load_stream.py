"""Read one answer of an engine from its event stream: the text, the counts, and when they came.

SGLang's native stream is read: `data: {json}` frames whose text is cumulative, then `data: [DONE]`. Only the
last frame is decoded in full; the count of tokens is picked out of the others, so that reading costs little
even at thousands of tokens a second. An error may come inside HTTP 200.
"""

from __future__ import annotations

import json
import re
import time
from array import array
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional

_TOKENS = re.compile(rb'"completion_tokens"\s*:\s*(\d+)')
_DONE = b"[DONE]"
_MAX_FRAME = 64 * 1024 * 1024
SAID = 300

# Where SGLang versions put the number of drafts that verification accepted.
_CORRECT = ("spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num")


@dataclass(frozen=True)
class RequestError:
    """Why a request failed: a kind to count by, a readable message, the HTTP status where there was one."""

    kind: str
    message: str
    status: Optional[int] = None


@dataclass
class Exchange:
    """One request. Times are seconds of CLOCK_MONOTONIC; counts are None where the engine gave none.

    `ticks` gives (time, tokens so far) for each chunk; arrays hold them, which cost the collector nothing.
    """

    sent: float = 0.0
    first: Optional[float] = None
    last: Optional[float] = None
    ended: Optional[float] = None
    chunks: int = 0
    text: str = ""
    tokens: Optional[int] = None
    prompt_tokens: Optional[int] = None
    cached_tokens: Optional[int] = None
    verify_calls: Optional[int] = None
    correct_drafts: Optional[int] = None
    finish: str = ""
    error: Optional[RequestError] = None
    tick_times: array[float] = field(default_factory=lambda: array("d"))
    tick_tokens: array[int] = field(default_factory=lambda: array("q"))

    @property
    def ticks(self) -> list[tuple[float, int]]:
        """(time, tokens so far) for each chunk, in order."""
        return list(zip(self.tick_times, self.tick_tokens))  # noqa: B905 - Python 3.9 knows no strict


class StreamError(Exception):
    """Ends the reading of a stream with an error record."""

    def __init__(self, kind: str, message: str, status: Optional[int] = None) -> None:
        super().__init__(message)
        self.error = RequestError(kind, message[:SAID], status)


def _count(meta: Mapping[str, Any], *names: str) -> Optional[int]:
    for name in names:
        value = meta.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return int(value)
    return None


class Reader:
    """Turns the bytes of one stream into an Exchange. `incremental`: each frame holds only the new text."""

    def __init__(self, exchange: Exchange, incremental: bool) -> None:
        self._exchange = exchange
        self._incremental = incremental
        self._buffer = b""
        self._frame = b""
        self._pieces: list[str] = []
        self.done = False

    def feed(self, chunk: bytes, now: float) -> None:
        """Take the next bytes. Raises StreamError on an error frame or one that is too large."""
        if b"\r" in chunk:  # JSON never holds a bare one
            chunk = chunk.replace(b"\r", b"")
        *frames, self._buffer = (self._buffer + chunk).split(b"\n\n")
        if len(self._buffer) > _MAX_FRAME:
            raise StreamError("oversized", "a frame of the stream is larger than %d bytes" % _MAX_FRAME)
        tokens = 0
        try:
            for frame in frames:
                data = _data(frame)
                if data == _DONE:
                    self.done = True
                elif data:
                    tokens = self._take(data) or tokens
        finally:
            if tokens:  # what came before an error frame in the same chunk did come
                self._tick(now, tokens)

    def _take(self, data: bytes) -> int:
        """Tokens so far, by this frame."""
        if b'"error"' in data:
            _raise_if_error(_decoded(data))
        self._frame = data
        if self._incremental:
            self._pieces.append(str(_decoded(data).get("text") or ""))
        match = _TOKENS.search(data, max(0, data.rfind(b'"completion_tokens"')))
        return int(match.group(1)) if match else 0

    def _tick(self, now: float, tokens: int) -> None:
        exchange = self._exchange
        exchange.chunks += 1
        exchange.last = now
        exchange.tick_times.append(now)
        exchange.tick_tokens.append(tokens)
        if exchange.first is None:
            exchange.first = now

    def finish(self) -> None:
        """The stream has ended: read the last frame. Raises StreamError when the answer is not whole."""
        exchange = self._exchange
        if not self._frame:
            raise StreamError("no_tokens", "the stream ended without any data")
        answer = _decoded(self._frame)
        meta = answer.get("meta_info")
        meta = meta if isinstance(meta, dict) else {}
        reason = meta.get("finish_reason")
        exchange.text = "".join(self._pieces) if self._incremental else str(answer.get("text") or "")
        exchange.tokens = _count(meta, "completion_tokens")
        exchange.prompt_tokens = _count(meta, "prompt_tokens")
        exchange.cached_tokens = _count(meta, "cached_tokens")
        exchange.verify_calls = _count(meta, "spec_verify_ct")
        exchange.correct_drafts = _count(meta, *_CORRECT)
        exchange.finish = str(reason.get("type") if isinstance(reason, dict) else reason or "")
        if exchange.finish == "abort":
            said = reason.get("message") if isinstance(reason, dict) else None
            raise StreamError("aborted", "the engine aborted the request: %s" % (said or "no reason given"))
        if not self.done and not exchange.finish:
            raise StreamError(
                "truncated", "the stream ended after %d chunks, before the answer did" % exchange.chunks
            )
        if not exchange.tokens:
            raise StreamError("no_tokens", "the answer holds no token")
        if not exchange.tick_times:  # an engine that counts only at the end
            self._tick(time.monotonic(), exchange.tokens)


def _data(frame: bytes) -> bytes:
    """The data of one frame of an event stream; empty for comments and keep-alives."""
    if frame.startswith(b"data:") and b"\n" not in frame:
        return frame[5:].strip()
    lines = [line[5:].strip() for line in frame.split(b"\n") if line.startswith(b"data:")]
    return b"\n".join(lines)


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except ValueError:
        raise StreamError("bad_json", "a frame of the stream is not JSON") from None
    if not isinstance(value, dict):
        raise StreamError("bad_json", "a frame of the stream is not a JSON object")
    return value


def _raise_if_error(answer: Mapping[str, Any]) -> None:
    error = answer.get("error")
    if not error:
        return
    if isinstance(error, dict):
        code = error.get("code")
        status = code if isinstance(code, int) else None
        raise StreamError(
            "error_in_stream", str(error.get("message") or error.get("type") or "no message"), status
        )
    raise StreamError("error_in_stream", str(error))
