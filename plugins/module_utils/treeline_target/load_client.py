"""Requests to one engine. Nothing a server does raises: it becomes an error record."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any, Mapping, Optional, Union

import aiohttp

from . import load_chat
from .load_errors import classify
from .load_spec import Limits
from .load_stream import (
    SAID,
    Exchange,
    Reader,
    RequestError,
    StreamError,
    decoded,
    raise_if_error,
    require_whole,
    take_native,
)
from .served import INFO_PAGES

_MAX_PAGE = 16 * 1024 * 1024
# asyncio asks for 256 KiB at each receive; blocks of that size are mapped and given back by the C library
# each time, which costs the kernel more than the receive itself.
_RECEIVE = 64 * 1024
_BUSY = (429, 503)
_MAX_PAUSE_S = 5.0


class Client:
    """Requests to one engine; use as an asynchronous context manager.

    Each request has a connection of its own: a kept one that the server closes meanwhile would count as a
    failure of the engine. `api` is `native` (SGLang's /generate) or `chat` (OpenAI's chat completions);
    `retries` is how often a request is sent again that the engine turned away with 429 or 503.
    """

    def __init__(
        self,
        base_url: str,
        limits: Limits,
        api_key: Optional[str] = None,
        api: str = "native",
        stream: bool = True,
        retries: int = 0,
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._limits = limits
        self._headers = {"Authorization": "Bearer %s" % api_key} if api_key else {}
        self._api = api
        self._stream_answers = stream
        self._retries = retries
        self._in_flight: dict[asyncio.Task[Any], Exchange] = {}
        self.incremental = False
        self.model = "default"
        self.is_sglang = False
        self._asked: dict[object, float] = {}
        self._last_token_at = 0.0

    async def __aenter__(self) -> Client:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=self._headers,
            trust_env=False,
        )
        self._watch = asyncio.ensure_future(self._end_late_requests())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._watch.cancel()
        await asyncio.gather(self._watch, return_exceptions=True)
        await self._session.close()

    @property
    def in_flight(self) -> int:
        """Requests that have been sent and have not ended."""
        return len(self._in_flight)

    @property
    def tokens_in_flight(self) -> int:
        """Tokens that unfinished answers have brought so far."""
        return sum(one.tick_tokens[-1] for one in self._in_flight.values() if one.tick_tokens)

    def owes_since(self) -> Optional[float]:
        """Since when the engine has held requests and given nobody a token; None where it holds none.

        Seconds of CLOCK_MONOTONIC.
        """
        sent = [one.sent for one in self._in_flight.values()] + list(self._asked.values())
        if not sent:
            return None
        arrived = [one.last for one in self._in_flight.values() if one.last is not None]
        return max([min(sent), self._last_token_at, *arrived])

    async def _end_late_requests(self) -> None:
        """Bound each request, and the silence inside answers. Timers for each chunk would cost more than it.

        The wait for the first chunk is bounded by that for the whole request alone: queues and long prompts
        are no stall.
        """
        limits = self._limits
        while True:
            await asyncio.sleep(min(0.5, limits.chunk_s / 4, limits.request_s / 4))
            now = time.monotonic()
            for task, exchange in list(self._in_flight.items()):
                if exchange.last is not None and now - exchange.last > limits.chunk_s:
                    text = "nothing came for %g s after %d chunks" % (limits.chunk_s, exchange.chunks)
                    exchange.error = RequestError("timeout_chunk", text)
                elif now - exchange.sent > limits.request_s:
                    text = "the answer was not whole after %g s" % limits.request_s
                    exchange.error = RequestError("timeout_request", text)
                else:
                    continue
                task.cancel()

    async def generate(self, exchange: Exchange, prompt: str, max_tokens: int) -> None:
        """One greedy completion of exactly `max_tokens` tokens (the end of the text is ignored).

        `exchange` is filled in as the answer comes, so that it holds what there was when this is cancelled.
        """
        page, payload = self._request(prompt, max_tokens)
        exchange.sent = time.monotonic()
        task = asyncio.current_task()
        if task is not None:
            self._in_flight[task] = exchange
        try:
            await self._until_taken(exchange, page, payload)
        except asyncio.CancelledError:
            if exchange.error is None:
                exchange.error = RequestError("cancelled", "the load was ended while this request ran")
                raise
            # Python 3.11: it was our own stop, and is over
            if task is not None and hasattr(task, "uncancel"):
                task.uncancel()
        finally:
            if task is not None:
                self._in_flight.pop(task, None)
            exchange.ended = time.monotonic()
            if exchange.last is not None:
                self._last_token_at = max(self._last_token_at, exchange.last)
            if exchange.tokens is None and exchange.tick_tokens:
                exchange.tokens = exchange.tick_tokens[-1]

    def _request(self, prompt: str, max_tokens: int) -> tuple[str, dict[str, Any]]:
        if self._api == "chat":
            messages = [{"role": "user", "content": prompt}]
            return "/v1/chat/completions", load_chat.payload(
                messages, max_tokens, self.model, self._stream_answers, self.is_sglang
            )
        return "/generate", {
            "text": prompt,
            "sampling_params": {"temperature": 0, "max_new_tokens": max_tokens, "ignore_eos": True},
            "stream": self._stream_answers,
        }

    async def _until_taken(self, exchange: Exchange, page: str, payload: Mapping[str, Any]) -> None:
        """Send the request, and again while the engine says that it is busy, as often as allowed."""
        while True:
            pause = await self._once(exchange, page, payload)
            if pause is None:
                return
            exchange.retries += 1
            await asyncio.sleep(pause)

    async def _once(self, exchange: Exchange, page: str, payload: Mapping[str, Any]) -> Optional[float]:
        """One try; seconds to wait before the next one, None when there is none."""
        answered = False
        try:
            async with self._session.post(
                self._base_url + page, json=payload, timeout=self._timeout()
            ) as response:
                answered = True
                if response.status in _BUSY and exchange.retries < self._retries:
                    return _pause(response, exchange.retries)
                await _expect_ok(response)
                if self._stream_answers:
                    await self._read_stream(exchange, response)
                else:
                    await self._read_whole(exchange, response)
        except Exception as error:  # whatever a peer provokes is data
            exchange.error = classify(error, answered)
        return None

    async def _read_stream(self, exchange: Exchange, response: aiohttp.ClientResponse) -> None:
        reader: Union[Reader, load_chat.ChatReader] = (
            load_chat.ChatReader(exchange) if self._api == "chat" else Reader(exchange, self.incremental)
        )
        _receive_less(response)
        content = response.content
        while not reader.done:
            chunk = await content.readany()
            if not chunk:
                break
            reader.feed(chunk, time.monotonic())
        reader.finish()

    async def _read_whole(self, exchange: Exchange, response: aiohttp.ClientResponse) -> None:
        body = await _read(response, _MAX_PAGE)
        now = time.monotonic()
        answer = decoded(body)
        if self._api == "chat":
            load_chat.take_whole(exchange, answer)
        else:
            raise_if_error(answer)
            take_native(exchange, answer)
        require_whole(exchange, done=True)
        exchange.tick(now, exchange.tokens or 0)
        exchange.first = None  # when the first token was there cannot be seen from here

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
        answer, error = await self._answer("/v1/chat/completions", payload)
        if error is not None:
            return None, error
        choices = answer.get("choices") if isinstance(answer, dict) else None
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            return None, RequestError("bad_json", "the answer has no choices")
        return choices[0], None

    async def native(self, payload: Mapping[str, Any]) -> tuple[Any, Optional[RequestError]]:
        """What SGLang's /generate answers to a request that is not streamed: JSON, or an error."""
        return await self._answer("/generate", payload)

    async def _answer(self, page: str, payload: Mapping[str, Any]) -> tuple[Any, Optional[RequestError]]:
        """A whole answer with tokens, which the engine owes until it is there."""
        asked = object()
        self._asked[asked] = time.monotonic()
        try:
            answer, error = await self._page("POST", page, payload, self._limits.request_s)
        finally:
            del self._asked[asked]
        if error is None:
            self._last_token_at = time.monotonic()
        return answer, error

    async def server_info(self, timeout_s: float = 10.0) -> dict[str, Any]:
        """The engine's account of itself; empty when it gives none."""
        for page in INFO_PAGES:
            answer, error = await self._page("GET", page, None, timeout_s)
            if error is None and isinstance(answer, dict):
                return answer
            if error is not None and error.status != 404:
                break
        return {}

    async def served_model(self, timeout_s: float = 10.0) -> Optional[str]:
        """The first model of /v1/models, for engines that give no account of themselves."""
        answer, _ = await self._page("GET", "/v1/models", None, timeout_s)
        models = answer.get("data") if isinstance(answer, dict) else None
        if isinstance(models, list) and models and isinstance(models[0], dict) and models[0].get("id"):
            return str(models[0]["id"])
        return None

    async def metrics(self, timeout_s: float = 5.0) -> Optional[str]:
        """The engine's metrics page, None when it has none or does not answer."""
        answer, error = await self._page("GET", "/metrics", None, timeout_s, decode=False)
        return answer if error is None and isinstance(answer, str) else None

    async def flush_cache(self, timeout_s: float = 10.0) -> Optional[bool]:
        """Ask the engine to forget its prefix cache: whether it did, None when it does not offer that."""
        _, error = await self._page("POST", "/flush_cache", None, timeout_s, decode=False)
        if error is not None and error.status in (401, 403, 404, 405):
            return None
        return error is None

    def _timeout(self, total_s: Optional[float] = None) -> aiohttp.ClientTimeout:
        return aiohttp.ClientTimeout(total=total_s, sock_connect=self._limits.connect_s)

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


def _receive_less(response: aiohttp.ClientResponse) -> None:
    transport = response.connection.transport if response.connection is not None else None
    if hasattr(transport, "max_size"):  # asyncio's own; other event loops have other habits
        transport.max_size = _RECEIVE  # type: ignore[union-attr]


def _pause(response: aiohttp.ClientResponse, tries: int) -> float:
    """Seconds to wait before the next try: what the engine asks for, within bounds, else longer each time."""
    try:
        asked = float(response.headers.get("Retry-After", ""))
    except ValueError:
        asked = 0.2 * 2 ** min(tries, 10)
    return min(max(asked, 0.05), _MAX_PAUSE_S)


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
