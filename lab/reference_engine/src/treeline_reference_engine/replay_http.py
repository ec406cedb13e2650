"""The replay mode's HTTP: just enough of it to answer load tools, at the price of a few string operations."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .replay import Replay

_USUAL_TOKENS = 128
_MOST_TOKENS = 4096
_MOST_HEAD = 64 * 1024


@dataclass
class Stream:
    """One answer that is being written."""

    connection: Connection
    frames: list[bytes]
    which: int
    tokens: int
    chat: bool
    prompt: int
    usage: bool
    place: int = 0
    began: float = field(default_factory=time.perf_counter)


class Connection(asyncio.Protocol):
    """One client's connection; requests are answered one after the other."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._busy = False
        self._close = False
        self.paused = False
        self.closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  (TCP gives no other)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False

    def write(self, data: bytes) -> None:
        """Hand bytes to the socket."""
        if self._transport is not None and not self.closed:
            self._transport.write(data)

    def done(self) -> None:
        """The answer is written: close, or take the next request."""
        self._busy = False
        if self._close and self._transport is not None:
            self._transport.close()
        elif self._buffer:
            self._look()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._busy:
            self._look()

    def _look(self) -> None:
        head, found, rest = self._buffer.partition(b"\r\n\r\n")
        if not found:
            if len(head) > _MOST_HEAD and self._transport is not None:
                self._transport.abort()
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
        }
        length = int(headers.get("content-length", "0") or 0)
        if len(rest) < length:
            if headers.get("expect", "").lower() == "100-continue":
                self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            return
        body, self._buffer = rest[:length], rest[length:]
        self._busy = True
        self._close = headers.get("connection", "").lower() == "close"
        method, path, *_ = [*first.split(" "), "", ""]
        try:
            self._answer(method, path.partition("?")[0], body)
        except (ValueError, TypeError, AttributeError) as error:
            self._whole(400, json.dumps({"error": {"message": str(error), "code": 400}}).encode())

    def _answer(self, method: str, path: str, body: bytes) -> None:
        chat = path == "/v1/chat/completions"
        if method != "POST" or not (chat or path == "/generate"):
            status, page, kind = self._replay.page(path)
            self._whole(status, page, kind)
            return
        data = json.loads(body)
        tokens, prompt = _sizes(data, chat)
        which = self._replay.number()
        frames, text, ids = self._replay.frames.of(which, tokens, chat)
        if data.get("stream"):
            usage = bool((data.get("stream_options") or {}).get("include_usage"))
            self._replay.add(Stream(self, frames, which, tokens, chat, prompt, usage))
            return
        self._replay.count(prompt, tokens)
        if chat:
            text = self._replay.frames.of(which, tokens, False)[1]
            answer = self._replay.chat(which, text, prompt, tokens)
        else:
            answer = self._replay.native(which, text, ids, prompt, 0.0)
        self._whole(200, json.dumps(answer, ensure_ascii=False).encode())

    def _whole(self, status: int, body: bytes, kind: str = "application/json") -> None:
        head = f"HTTP/1.1 {status} Replay\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        self.write(head.encode() + body)
        self.done()


def _sizes(data: Mapping[str, Any], chat: bool) -> tuple[int, int]:
    """(tokens to answer, tokens of the prompt, about)."""
    if chat:
        given = data.get("max_completion_tokens") or data.get("max_tokens")
        characters = sum(len(str(message.get("content", ""))) for message in data.get("messages") or [])
    else:
        given = (data.get("sampling_params") or {}).get("max_new_tokens")
        ids = data.get("input_ids")
        characters = len(ids) * 4 if isinstance(ids, list) else len(str(data.get("text", "")))
    tokens = _USUAL_TOKENS if given is None else int(given)
    if not 1 <= tokens <= _MOST_TOKENS:  # frames carry the whole text, and are kept
        raise ValueError(f"the number of tokens must be 1 to {_MOST_TOKENS}, but got {tokens}")
    return tokens, max(1, characters // 4)
