"""One request to an engine and what became of it. Nothing a server does raises: it becomes an error record.

SGLang's native stream is read: `data: {json}` frames whose text is cumulative, then `data: [DONE]`. Only the
first and the last frame are decoded in full; the count of tokens is picked out of the others, so that the
client costs little even at thousands of tokens a second. An error may come inside HTTP 200.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional

import aiohttp

from .load_spec import Limits

_TOKENS = re.compile(rb'"completion_tokens"\s*:\s*(\d+)')
_DONE = b"[DONE]"
_MAX_FRAME = 64 * 1024 * 1024
_MAX_PAGE = 16 * 1024 * 1024
_SAID = 300
# Kinds of errors that a peer leaves behind when it dies.
NOBODY_THERE = ("connect", "reset", "timeout_connect", "truncated")

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

    `ticks` holds (time, tokens so far) for each chunk.
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
    ticks: list[tuple[float, int]] = field(default_factory=list)


class _StreamError(Exception):
    """Ends the reading of a stream with an error record."""

    def __init__(self, kind: str, message: str, status: Optional[int] = None) -> None:
        super().__init__(message)
        self.error = RequestError(kind, message[:_SAID], status)


def _count(meta: Mapping[str, Any], *names: str) -> Optional[int]:
    for name in names:
        value = meta.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return int(value)
    return None


class _Reader:
    """Turns the bytes of one stream into an Exchange. `incremental`: each frame holds only the new text."""

    def __init__(self, exchange: Exchange, incremental: bool) -> None:
        self._exchange = exchange
        self._incremental = incremental
        self._buffer = b""
        self._frame = b""
        self._pieces: list[str] = []
        self.done = False

    def feed(self, chunk: bytes, now: float) -> None:
        """Take the next bytes. Raises _StreamError on an error frame or one that is too large."""
        if b"\r" in chunk:  # JSON never holds a bare one
            chunk = chunk.replace(b"\r", b"")
        *frames, self._buffer = (self._buffer + chunk).split(b"\n\n")
        if len(self._buffer) > _MAX_FRAME:
            raise _StreamError("oversized", "a frame of the stream is larger than %d bytes" % _MAX_FRAME)
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
        exchange.ticks.append((now, tokens))
        if exchange.first is None:
            exchange.first = now

    def finish(self) -> None:
        """The stream has ended: read the last frame. Raises _StreamError when the answer is not whole."""
        exchange = self._exchange
        if not self._frame:
            raise _StreamError("no_tokens", "the stream ended without any data")
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
            raise _StreamError("aborted", "the engine aborted the request: %s" % (said or "no reason given"))
        if not self.done and not exchange.finish:
            raise _StreamError(
                "truncated", "the stream ended after %d chunks, before the answer did" % exchange.chunks
            )
        if not exchange.tokens:
            raise _StreamError("no_tokens", "the answer holds no token")
        if not exchange.ticks:  # an engine that counts only at the end
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
        raise _StreamError("bad_json", "a frame of the stream is not JSON") from None
    if not isinstance(value, dict):
        raise _StreamError("bad_json", "a frame of the stream is not a JSON object")
    return value


def _raise_if_error(answer: Mapping[str, Any]) -> None:
    error = answer.get("error")
    if not error:
        return
    if isinstance(error, dict):
        code = error.get("code")
        status = code if isinstance(code, int) else None
        raise _StreamError(
            "error_in_stream", str(error.get("message") or error.get("type") or "no message"), status
        )
    raise _StreamError("error_in_stream", str(error))


def classify(error: BaseException, answered: bool) -> RequestError:
    """An error record for what aiohttp or asyncio raised; `answered`: the response had begun."""
    text = "%s: %s" % (type(error).__name__, error) if str(error) else type(error).__name__
    if isinstance(error, _StreamError):
        return error.error
    if isinstance(error, aiohttp.ServerTimeoutError):
        kind = "timeout_chunk" if answered or "read" in str(error).lower() else "timeout_connect"
    elif isinstance(error, asyncio.TimeoutError):
        kind = "timeout_request"
    elif isinstance(error, aiohttp.ClientConnectorError):
        kind = "connect"
    elif isinstance(error, (aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError)):
        was_reset = not answered or "reset by peer" in str(error)
        kind = "reset" if was_reset else "truncated"
    elif isinstance(error, (aiohttp.ClientOSError, ConnectionError, OSError)):
        kind = "reset"
    elif isinstance(error, aiohttp.ClientError):
        kind = "protocol"
    else:
        kind = "unexpected"
    return RequestError(kind, text[:_SAID])


class Client:
    """Requests to one engine; use as an asynchronous context manager.

    Each request has a connection of its own: a kept one that the server closes meanwhile would count as a
    failure of the engine.
    """

    def __init__(self, base_url: str, limits: Limits, api_key: Optional[str] = None) -> None:
        self._base_url = base_url.rstrip("/")
        self._limits = limits
        self._headers = {"Authorization": "Bearer %s" % api_key} if api_key else {}
        self.incremental = False

    async def __aenter__(self) -> Client:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=self._headers,
            trust_env=False,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    def _timeout(self, total_s: Optional[float] = None) -> aiohttp.ClientTimeout:
        limits = self._limits
        return aiohttp.ClientTimeout(
            total=total_s or limits.request_s, sock_connect=limits.connect_s, sock_read=limits.chunk_s
        )

    async def generate(
        self,
        exchange: Exchange,
        prompt: str,
        max_tokens: int,
    ) -> None:
        """Stream one greedy completion of exactly `max_tokens` tokens (the end of the text is ignored).

        `exchange` is filled in as the answer comes, so that it holds what there was when this is cancelled.
        """
        payload = {
            "text": prompt,
            "sampling_params": {"temperature": 0, "max_new_tokens": max_tokens, "ignore_eos": True},
            "stream": True,
        }
        reader = _Reader(exchange, self.incremental)
        answered = False
        exchange.sent = time.monotonic()
        try:
            async with self._session.post(
                self._base_url + "/generate", json=payload, timeout=self._timeout()
            ) as response:
                answered = True
                await _expect_ok(response)
                async for chunk in response.content.iter_any():
                    reader.feed(chunk, time.monotonic())
                    if reader.done:
                        break
            reader.finish()
        except asyncio.CancelledError:
            exchange.error = RequestError("cancelled", "the load was ended while this request ran")
            raise
        except Exception as error:  # whatever a peer provokes is data
            exchange.error = classify(error, answered)
        finally:
            exchange.ended = time.monotonic()
            if exchange.tokens is None and exchange.ticks:
                exchange.tokens = exchange.ticks[-1][1]

    async def chat(
        self, messages: Any, max_tokens: int, model: str
    ) -> tuple[Optional[dict[str, Any]], Optional[RequestError]]:
        """One greedy chat completion: its first choice, or an error."""
        payload = {
            "model": model,
            "messages": list(messages),
            "temperature": 0,
            "max_tokens": max_tokens,
            "stream": False,
        }
        answer, error = await self._page("POST", "/v1/chat/completions", payload, self._limits.request_s)
        if error is not None:
            return None, error
        choices = answer.get("choices") if isinstance(answer, dict) else None
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            return None, RequestError("bad_json", "the answer has no choices")
        return choices[0], None

    async def server_info(self, timeout_s: float = 10.0) -> dict[str, Any]:
        """The engine's account of itself; empty when it gives none."""
        for page in ("/server_info", "/get_server_info"):
            answer, error = await self._page("GET", page, None, timeout_s)
            if error is None and isinstance(answer, dict):
                return answer
            if error is not None and error.status != 404:
                break
        return {}

    async def metrics(self, timeout_s: float = 5.0) -> Optional[str]:
        """The engine's metrics page, None when it has none or does not answer."""
        answer, error = await self._page("GET", "/metrics", None, timeout_s, decode=False)
        return answer if error is None and isinstance(answer, str) else None

    async def _page(
        self, method: str, page: str, payload: Any, timeout_s: float, decode: bool = True
    ) -> tuple[Any, Optional[RequestError]]:
        answered = False
        try:
            async with self._session.request(
                method, self._base_url + page, json=payload, timeout=self._timeout(timeout_s)
            ) as response:
                answered = True
                await _expect_ok(response)
                body = await _read(response, _MAX_PAGE)
                return (json.loads(body) if decode else body.decode("utf-8", "replace")), None
        except ValueError:
            return None, RequestError("bad_json", "the answer is not JSON")
        except Exception as error:  # whatever a peer provokes is data
            return None, classify(error, answered)


async def _read(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """The first `limit` bytes of a body."""
    parts: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        parts.append(chunk)
        size += len(chunk)
        if size >= limit:
            break
    return b"".join(parts)[:limit]


async def _expect_ok(response: aiohttp.ClientResponse) -> None:
    if response.status == 200:
        return
    body = (await _read(response, _SAID)).decode("utf-8", "replace")
    raise _StreamError(
        "http_status", "HTTP %d: %s" % (response.status, body.strip() or response.reason), response.status
    )
