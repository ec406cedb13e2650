"""Requests to one engine. Nothing a server does raises: it becomes an error record."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any, Mapping, Optional

import aiohttp

from .load_spec import Limits
from .load_stream import SAID, Exchange, Reader, RequestError, StreamError
from .served import INFO_PAGES

_MAX_PAGE = 16 * 1024 * 1024
# Kinds of errors that a peer leaves behind when it dies.
NOBODY_THERE = ("connect", "reset", "timeout_connect", "truncated")


def classify(error: BaseException, answered: bool) -> RequestError:
    """An error record for what aiohttp or asyncio raised; `answered`: the response had begun."""
    text = "%s: %s" % (type(error).__name__, error) if str(error) else type(error).__name__
    if isinstance(error, StreamError):
        return error.error
    if isinstance(error, aiohttp.ServerTimeoutError):
        kind = "timeout_connect"
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
    return RequestError(kind, text[:SAID])


class Client:
    """Requests to one engine; use as an asynchronous context manager.

    Each request has a connection of its own: a kept one that the server closes meanwhile would count as a
    failure of the engine.
    """

    def __init__(self, base_url: str, limits: Limits, api_key: Optional[str] = None) -> None:
        self._base_url = base_url.rstrip("/")
        self._limits = limits
        self._headers = {"Authorization": "Bearer %s" % api_key} if api_key else {}
        self._streams: dict[asyncio.Task[Any], Exchange] = {}
        self.incremental = False

    async def __aenter__(self) -> Client:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=self._headers,
            trust_env=False,
        )
        self._watch = asyncio.ensure_future(self._end_stalled_streams())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._watch.cancel()
        await asyncio.gather(self._watch, return_exceptions=True)
        await self._session.close()

    async def _end_stalled_streams(self) -> None:
        """Bound the silence inside answers. A timer of its own for each chunk would cost more than the chunk.

        The wait for the first chunk is bounded by that for the whole request alone: queues and long prompts
        are no stall.
        """
        while True:
            await asyncio.sleep(min(0.5, self._limits.chunk_s / 4))
            now = time.monotonic()
            for task, exchange in list(self._streams.items()):
                if exchange.last is not None and now - exchange.last > self._limits.chunk_s:
                    text = "nothing came for %g s after %d chunks" % (self._limits.chunk_s, exchange.chunks)
                    exchange.error = RequestError("timeout_chunk", text)
                    task.cancel()

    def _timeout(self, total_s: Optional[float] = None) -> aiohttp.ClientTimeout:
        return aiohttp.ClientTimeout(
            total=total_s or self._limits.request_s, sock_connect=self._limits.connect_s
        )

    async def generate(self, exchange: Exchange, prompt: str, max_tokens: int) -> None:
        """Stream one greedy completion of exactly `max_tokens` tokens (the end of the text is ignored).

        `exchange` is filled in as the answer comes, so that it holds what there was when this is cancelled.
        """
        payload = {
            "text": prompt,
            "sampling_params": {"temperature": 0, "max_new_tokens": max_tokens, "ignore_eos": True},
            "stream": True,
        }
        exchange.sent = time.monotonic()
        task = asyncio.current_task()
        if task is not None:
            self._streams[task] = exchange
        try:
            await self._stream(exchange, payload)
        except asyncio.CancelledError:
            if exchange.error is None:
                exchange.error = RequestError("cancelled", "the load was ended while this request ran")
                raise
            if task is not None and hasattr(
                task, "uncancel"
            ):  # Python 3.11: it was our own stop, and is over
                task.uncancel()
        finally:
            if task is not None:
                self._streams.pop(task, None)
            exchange.ended = time.monotonic()
            if exchange.tokens is None and exchange.tick_tokens:
                exchange.tokens = exchange.tick_tokens[-1]

    async def _stream(self, exchange: Exchange, payload: Mapping[str, Any]) -> None:
        reader = Reader(exchange, self.incremental)
        answered = False
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
        except Exception as error:  # whatever a peer provokes is data
            exchange.error = classify(error, answered)

    async def chat(
        self, messages: Any, max_tokens: int, model: str
    ) -> tuple[Optional[dict[str, Any]], Optional[RequestError]]:
        """One greedy chat completion: its first choice, or an error.

        A thinking model is asked not to think, or a short answer would end inside the thought; the two names
        are those that chat templates use. Other templates ignore them.
        """
        payload = {
            "model": model,
            "messages": list(messages),
            "temperature": 0,
            "max_tokens": max_tokens,
            "stream": False,
            "chat_template_kwargs": {"thinking": False, "enable_thinking": False},
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
        for page in INFO_PAGES:
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
    body = (await _read(response, SAID)).decode("utf-8", "replace")
    raise StreamError(
        "http_status", "HTTP %d: %s" % (response.status, body.strip() or response.reason), response.status
    )
