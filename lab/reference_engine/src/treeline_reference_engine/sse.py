"""Server-sent events that end with the client.

A plain ASGI response, so that a client that goes away is noticed at once whatever version of Starlette or
uvicorn is installed: the source is closed, which aborts its request.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from starlette.requests import Request

_Receive = Callable[[], Awaitable[Any]]
_Send = Callable[[Any], Awaitable[None]]
_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]

DONE = "[DONE]"


class EventStream:
    """Sends the items of ``source``: bytes as they are, mappings as JSON in an event, strings as events."""

    def __init__(self, source: AsyncGenerator[Any, None]) -> None:
        self._source = source

    async def __call__(self, scope: Any, receive: _Receive, send: _Send) -> None:
        sender = asyncio.ensure_future(self._send_all(send))
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait({sender, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sender, gone):
                task.cancel()
            await asyncio.gather(sender, gone, return_exceptions=True)
            await self._source.aclose()

    async def _send_all(self, send: _Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        async for item in self._source:
            body = item if isinstance(item, bytes) else _event(item)
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _event(item: Any) -> bytes:
    text = item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)
    return f"data: {text}\n\n".encode("utf-8", "replace")


async def _disconnected(receive: _Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def until_disconnect(request: Request, work: Awaitable[Any]) -> Any:
    """Result of ``work``, or None when the client went away first (``work`` is then cancelled)."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(request.receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        for future in (task, gone):
            future.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)
