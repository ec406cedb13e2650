"""Read one answer of an engine as it comes: the text, the counts, and when they came.

Two shapes of event streams are read. SGLang's own: `data: {json}` frames whose text is cumulative; only the
last frame is decoded in full, and of those that arrived together only the newest is searched for its count,
so that reading costs little even at thousands of tokens a second. And OpenAI's chat chunks (`load_chat`),
which hold the new text only. An error may come inside HTTP 200.
"""

from __future__ import annotations

import json
import re
import time
from array import array
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional

_TOKENS = re.compile(rb'"completion_tokens"\s*:\s*(\d+)')
DONE = b"[DONE]"
_END = b"\n\n"
# A frame is put together from what arrives: its length bounds what that costs, and what it takes in memory.
MAX_FRAME = 8 * 1024 * 1024
MAX_TEXT = 16 * 1024 * 1024
# Arrivals kept for each request; of longer answers the older ones are thinned out.
MAX_TICKS = 1024
SAID = 300

# Where SGLang versions put the number of drafts that verification accepted.
_CORRECT = ("spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num")
# ... that were proposed, and how many verify calls accepted so many drafts.
_PROPOSED = ("spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num")
_HISTOGRAM = ("spec_correct_drafts_histogram", "spec_accept_histogram")
_MAX_DEPTH = 1024


@dataclass(frozen=True)
class RequestError:
    """Why a request failed: a kind to count by, a readable message, the HTTP status where there was one."""

    kind: str
    message: str
    status: Optional[int] = None


@dataclass
class Exchange:
    """One request. Times are seconds of CLOCK_MONOTONIC; counts are None where the engine gave none.

    `ticks` gives (time, tokens so far) for the arrivals; arrays hold them, which cost the collector nothing.
    `first` is when the first token was seen; an answer that is not streamed has none. `retries` counts how
    often the engine said that it was busy before it took the request. `accepted_histogram` counts the verify
    calls that accepted 0, 1, 2, ... drafts.
    """

    sent: float = 0.0
    first: Optional[float] = None
    last: Optional[float] = None
    ended: Optional[float] = None
    chunks: int = 0
    retries: int = 0
    text: str = ""
    tokens: Optional[int] = None
    prompt_tokens: Optional[int] = None
    cached_tokens: Optional[int] = None
    verify_calls: Optional[int] = None
    correct_drafts: Optional[int] = None
    finish: str = ""
    error: Optional[RequestError] = None
    proposed_drafts: Optional[int] = None
    accepted_histogram: Optional[list[int]] = None
    max_ticks: int = MAX_TICKS
    tick_times: array[float] = field(default_factory=lambda: array("d"))
    tick_tokens: array[int] = field(default_factory=lambda: array("q"))

    @property
    def ticks(self) -> list[tuple[float, int]]:
        """(time, tokens so far) for the arrivals that are kept, in order."""
        return list(zip(self.tick_times, self.tick_tokens))  # noqa: B905 - Python 3.9 knows no strict

    @property
    def ok(self) -> bool:
        """Whether it ended, and well."""
        return self.error is None and self.ended is not None

    def tick(self, now: float, tokens: int) -> None:
        """Tokens have arrived: `tokens` so far, at `now`."""
        self.chunks += 1
        self.last = now
        if self.first is None:
            self.first = now
        self.tick_times.append(now)
        self.tick_tokens.append(tokens)
        if len(self.tick_times) > self.max_ticks:
            # Of each pair the later one stays, which counts the tokens of both.
            pairs = self.max_ticks // 2 * 2
            del self.tick_times[:pairs:2]
            del self.tick_tokens[:pairs:2]


class StreamError(Exception):
    """Ends the reading of a stream with an error record."""

    def __init__(self, kind: str, message: str, status: Optional[int] = None) -> None:
        super().__init__(message)
        self.error = RequestError(kind, message[:SAID], status)


class Frames:
    """Cuts the bytes of an event stream into whole frames; subclasses say what to do with them."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._rest = bytearray()
        self._pieces: list[str] = []
        self._size = 0
        self.done = False

    def feed(self, chunk: bytes, now: float) -> None:
        """Take the next bytes. Raises StreamError on an error frame or one that is too large."""
        if b"\r" in chunk:  # JSON never holds a bare one
            chunk = chunk.replace(b"\r", b"")
        whole = chunk
        if self._rest:
            before = len(self._rest)
            self._rest += chunk
            if self._rest.find(_END, before - 1) < 0:
                self._bound_rest()
                return
            whole = bytes(self._rest)
        end = whole.rfind(_END)
        self._rest = bytearray(whole[end + 2 :] if end >= 0 else whole)
        self._bound_rest()
        if end >= 0:
            self._take(whole[:end], now)

    def _bound_rest(self) -> None:
        if len(self._rest) > MAX_FRAME:
            raise StreamError("oversized", "a frame of the stream is larger than %d bytes" % MAX_FRAME)

    def _keep(self, piece: str) -> None:
        """Keep a piece of the text. Raises StreamError when the text has become too large."""
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > MAX_TEXT:
            raise StreamError("oversized", "the text is longer than %d characters" % MAX_TEXT)

    def _take(self, frames: bytes, now: float) -> None:
        """Read frames that arrived together at `now`; blank lines are between them."""
        raise NotImplementedError

    def finish(self) -> None:
        """The stream has ended. Raises StreamError when the answer is not whole."""
        raise NotImplementedError


class Reader(Frames):
    """SGLang's own stream. `incremental`: each frame holds only the new text."""

    def __init__(self, exchange: Exchange, incremental: bool) -> None:
        super().__init__(exchange)
        self._incremental = incremental
        self._frame = b""

    def _take(self, frames: bytes, now: float) -> None:
        if self._incremental or b'"error"' in frames:
            self._take_each(frames, now)
            return
        newest = b""
        try:
            for frame in frames.split(_END) if _END in frames else (frames,):
                data = frame_data(frame)
                if data == DONE:
                    self.done = True
                elif data:
                    if data[:1] != b"{" or data[-1:] != b"}":
                        decoded(data)  # says what is wrong with it
                    newest = data
        finally:  # what came before a broken frame did come
            tokens = self._newest(newest) if newest else 0
            if tokens:
                self._exchange.tick(now, tokens)

    def _take_each(self, frames: bytes, now: float) -> None:
        tokens = 0
        try:
            for frame in frames.split(_END):
                data = frame_data(frame)
                if data == DONE:
                    self.done = True
                elif data:
                    if b'"error"' in data:
                        raise_if_error(decoded(data))
                    if self._incremental:
                        self._keep(str(decoded(data).get("text") or ""))
                    tokens = self._newest(data) or tokens
        finally:
            if tokens:  # what came before an error frame in the same chunk did come
                self._exchange.tick(now, tokens)

    def _newest(self, data: bytes) -> int:
        """Tokens so far, by this frame."""
        self._frame = data
        at = data.rfind(b'"completion_tokens"')
        match = _TOKENS.match(data, at) if at >= 0 else None
        return int(match.group(1)) if match else 0

    def finish(self) -> None:
        """The stream has ended: read the last frame. Raises StreamError when the answer is not whole."""
        exchange = self._exchange
        if not self._frame:
            raise StreamError("no_tokens", "the stream ended without any data")
        take_native(exchange, decoded(self._frame))
        if self._incremental:
            exchange.text = "".join(self._pieces)
        require_whole(exchange, self.done)
        if not exchange.tick_times:  # an engine that counts only at the end
            exchange.tick(time.monotonic(), exchange.tokens or 0)


def take_native(exchange: Exchange, answer: Mapping[str, Any]) -> None:
    """Read SGLang's own answer: text and meta_info. Raises StreamError when the engine aborted it."""
    meta = answer.get("meta_info")
    meta = meta if isinstance(meta, dict) else {}
    exchange.text = str(answer.get("text") or "")
    exchange.tokens = count(meta, "completion_tokens")
    exchange.prompt_tokens = count(meta, "prompt_tokens")
    exchange.cached_tokens = count(meta, "cached_tokens")
    take_speculation(exchange, meta)
    take_finish(exchange, meta.get("finish_reason"))


def take_speculation(exchange: Exchange, meta: Mapping[str, Any]) -> None:
    """Verify calls and drafts, where a mapping of the answer has them."""
    calls = count(meta, "spec_verify_ct")
    exchange.verify_calls = exchange.verify_calls if calls is None else calls
    drafts = count(meta, *_CORRECT)
    exchange.correct_drafts = exchange.correct_drafts if drafts is None else drafts
    proposed = count(meta, *_PROPOSED)
    exchange.proposed_drafts = exchange.proposed_drafts if proposed is None else proposed
    for name in _HISTOGRAM:
        bars = meta.get(name)
        if isinstance(bars, list) and 0 < len(bars) <= _MAX_DEPTH and all(type(one) is int for one in bars):
            exchange.accepted_histogram = bars
            break


def take_finish(exchange: Exchange, reason: Any) -> None:
    """Why the answer ended. Raises StreamError for an abort."""
    exchange.finish = str(reason.get("type") if isinstance(reason, dict) else reason or "")
    if exchange.finish == "abort":
        said = reason.get("message") if isinstance(reason, dict) else None
        raise StreamError("aborted", "the engine aborted the request: %s" % (said or "no reason given"))


def require_whole(exchange: Exchange, done: bool) -> None:
    """Raises StreamError for an answer that broke off or has no token; `done`: its last word was said."""
    if not done and not exchange.finish:
        raise StreamError(
            "truncated", "the stream ended after %d chunks, before the answer did" % exchange.chunks
        )
    if not exchange.tokens:
        raise StreamError("no_tokens", "the answer holds no token")


def count(meta: Mapping[str, Any], *names: str) -> Optional[int]:
    """The first of `names` that holds a number, whole."""
    for name in names:
        value = meta.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            try:
                return int(value)
            except (ValueError, OverflowError):  # JSON's NaN and Infinity, which Python reads
                continue
    return None


def frame_data(frame: bytes) -> bytes:
    """The data of one frame of an event stream; empty for comments and keep-alives."""
    if frame.startswith(b"data:") and b"\n" not in frame:
        return frame[5:].strip()
    lines = [line[5:].strip() for line in frame.split(b"\n") if line.startswith(b"data:")]
    return b"\n".join(lines)


def decoded(data: bytes) -> dict[str, Any]:
    """A JSON object. Raises StreamError for anything else."""
    try:
        value = json.loads(data.decode("utf-8", "surrogatepass"))  # as json does, without guessing first
    except (ValueError, RecursionError):
        raise StreamError("bad_json", "a part of the answer is not JSON") from None
    if not isinstance(value, dict):
        raise StreamError("bad_json", "a part of the answer is not a JSON object")
    return value


def raise_if_error(answer: Mapping[str, Any]) -> None:
    """Raises StreamError where the object is, or holds, an error."""
    error = answer.get("error")
    if not error:
        if answer.get("object") != "error":
            return
        error = answer
    if isinstance(error, dict):
        code = error.get("code")
        status = code if isinstance(code, int) else None
        raise StreamError(
            "error_in_stream", str(error.get("message") or error.get("type") or "no message"), status
        )
    raise StreamError("error_in_stream", str(error))
