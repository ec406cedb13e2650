"""Faults on the wire, over a real uvicorn and a stream of three chunks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from treeline_reference_engine.faults import WIRE, Fault
from treeline_reference_engine.http_faults import wrap
from treeline_reference_engine.server import _Uvicorn

BODY = {"text": "x", "stream": True}


async def _app(scope: Any, receive: Any, send: Any) -> None:
    assert scope["type"] == "http"
    message = await receive()
    data = json.loads(message["body"] or b"{}")
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for step in range(1, 4):
        frame = f'data: {{"text": "{"a" * step}", "asked": {json.dumps(data)}}}\n\n'.encode()
        await send({"type": "http.response.body", "body": frame, "more_body": True})
        await asyncio.sleep(0.01)
    await send({"type": "http.response.body", "body": b"data: [DONE]\n\n", "more_body": False})


@contextlib.contextmanager
def _serving(fault: Fault | None) -> Iterator[int]:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    server = _Uvicorn(uvicorn.Config(wrap(_app, fault), log_level="critical", lifespan="off"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])), daemon=True)
    thread.start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        server.force_exit = server.should_exit = True
        thread.join(timeout=10)


def _ask(port: int, body: dict[str, Any], path: str = "/generate", timeout: float = 5.0) -> bytes:
    """Everything that comes back, as bytes; ends with RESET or SILENCE where the peer does that."""
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n"
    got = b""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as link:
        link.sendall(head.encode() + data)
        try:
            while chunk := link.recv(65536):
                got += chunk
        except ConnectionResetError:
            return got + b"RESET"
        except TimeoutError:
            return got + b"SILENCE"
    return got


@pytest.mark.parametrize("kind", WIRE)
def test_only_the_chosen_streams_are_hit(kind: str) -> None:
    with _serving(Fault(kind, every=2, after_requests=1)) as port:
        whole = _ask(port, BODY)
        assert b"[DONE]" in whole
        assert whole.endswith(b"0\r\n\r\n")
        assert b"[DONE]" in _ask(port, BODY)
        hit = _ask(port, BODY, timeout=1.0)
        assert b"[DONE]" in _ask(port, BODY)
        assert b"[DONE]" in _ask(port, {"text": "x"})  # not a stream: never hit
    _check(kind, hit)


def _check(kind: str, hit: bytes) -> None:
    marks = {
        "http_reset": b"RESET",
        "http_half_chunk": b'400\r\ndata: {"text": "half',
        "http_bad_json": b'data: {"text": oh no\n\n',
        "http_error_frame": b'data: {"error": {"message": "the batch is broken"',
        "http_stall": b"SILENCE",
        "http_429": b"HTTP/1.1 429 ",
        "http_503": b"HTTP/1.1 503 ",
    }
    assert marks[kind] in hit, hit
    if kind in ("http_429", "http_503"):
        assert b'"error"' in hit
        return
    assert hit.startswith(b"HTTP/1.1 200 ")
    assert hit.count(b'"asked"') == 2  # two chunks came, whole
    if kind in ("http_reset", "http_half_chunk", "http_stall"):
        assert b"[DONE]" not in hit


def test_other_paths_and_no_fault_are_left_alone() -> None:
    with _serving(Fault("http_reset")) as port:
        assert b"[DONE]" in _ask(port, BODY, path="/server_info")
    assert wrap(_app, None) is _app
    assert wrap(_app, Fault("collapse")) is _app
