"""Faults on the wire: streams that are cut, garbled or refused, in front of the application.

Only streamed generations are hit (a load's), neither probes nor whole answers. The first ``after_requests``
of them pass, then every ``every``-th is hit.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any

from .faults import WIRE, Fault
from .http_common import error_answer

_Receive = Callable[[], Awaitable[Any]]
_Send = Callable[[Any], Awaitable[None]]
_App = Callable[[Any, _Receive, _Send], Awaitable[None]]

_PATHS = ("/generate", "/v1/chat/completions", "/v1/completions")
_MOST_SILENCE_S = 3600.0
_BAD_JSON = b'data: {"text": oh no\n\n'
_ERROR = {"message": "the batch is broken", "type": "InternalServerError", "code": 500, "retryable": False}


class _CutError(Exception):
    """The answer has been ended by the fault."""


class HttpFaults:
    """ASGI wrapper that plays one fault."""

    def __init__(self, app: _App, fault: Fault) -> None:
        self._app = app
        self._fault = fault
        self._streams = 0

    async def __call__(self, scope: Any, receive: _Receive, send: _Send) -> None:
        if scope["type"] != "http" or scope["path"] not in _PATHS:
            await self._app(scope, receive, send)
            return
        body = await _body(receive)
        if not _is_stream(body) or not self._hit():
            await self._app(scope, _replay(body, receive), send)
            return
        if self._fault.kind in ("http_429", "http_503"):
            status = int(self._fault.kind.removeprefix("http_"))
            await error_answer("The server is too busy (fault profile).", status)(scope, receive, send)
            return
        try:
            await self._app(scope, _replay(body, receive), _Cutter(self._fault, send))
        except _CutError:
            return

    def _hit(self) -> bool:
        self._streams += 1
        beyond = self._streams - (self._fault.after_requests or 0)
        return beyond > 0 and beyond % self._fault.every == 0


def wrap(app: _App, fault: Fault | None) -> _App:
    """``app``, behind the fault where it is one of the wire."""
    return HttpFaults(app, fault) if fault is not None and fault.kind in WIRE else app


class _Cutter:
    """A ``send`` that lets some chunks pass and then plays the fault."""

    def __init__(self, fault: Fault, send: _Send) -> None:
        self._fault = fault
        self._send = send
        self._chunks = 0

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.body":
            self._chunks += 1
            if self._chunks > self._fault.after_chunks:
                await self._play()
        await self._send(message)

    async def _play(self) -> None:
        kind = self._fault.kind
        if kind == "http_stall":
            await asyncio.sleep(_MOST_SILENCE_S)  # the client's going away cancels this
        elif kind == "http_bad_json":
            await self._end_with(_BAD_JSON)
        elif kind == "http_error_frame":
            await self._end_with(b"data: " + json.dumps({"error": _ERROR}).encode() + b"\n\n")
        # The application's server has no words for what follows: its transport does it.
        transport = getattr(getattr(self._send, "__self__", None), "transport", None)
        if transport is None:
            raise RuntimeError(
                "This version of uvicorn does not show its transport; the fault cannot be played."
            )
        if kind == "http_half_chunk":
            transport.write(b'400\r\ndata: {"text": "half')
            transport.close()
        else:
            handle = transport.get_extra_info("socket")
            handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transport.abort()
        raise _CutError

    async def _end_with(self, frame: bytes) -> None:
        for body, more in ((frame, True), (b"data: [DONE]\n\n", True), (b"", False)):
            await self._send({"type": "http.response.body", "body": body, "more_body": more})
        raise _CutError


async def _body(receive: _Receive) -> bytes:
    out = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return out
        out += message.get("body", b"")
        if not message.get("more_body"):
            return out


def _replay(body: bytes, receive: _Receive) -> _Receive:
    given = False

    async def again() -> Any:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _is_stream(body: bytes) -> bool:
    try:
        data = json.loads(body)
    except ValueError:
        return False
    return isinstance(data, dict) and bool(data.get("stream"))
