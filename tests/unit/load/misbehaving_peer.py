"""A peer that speaks HTTP by hand, so that it can break every rule of it: half chunks, resets, silence.

It runs in a thread of its own. `modes` names what POST /generate does, in turn; the last one stays.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

TOKENS_PER_STEP = 3
STEPS = 4
SENTENCE = "the quick brown fox jumps over a lazy dog and then it sleeps for the rest of the day "


class Peer:
    """`address` answers while the block runs. Everything that a test wants to change is an attribute."""

    def __init__(self) -> None:
        self.modes: list[str] = ["ok"]
        self.answers: dict[str, Any] = {}
        self.server_info: dict[str, Any] | None = {"served_model_name": "small"}
        self.metrics: Callable[[], str] | None = None
        self.flush_status: int | None = None
        self.flushes = 0
        self.retry_after: str | None = None
        self.text = SENTENCE * 8
        self.step_s = 0.005
        self.flying = 0
        self.peak = 0
        self.prompts: list[str] = []
        self.chats: list[dict[str, Any]] = []
        self.headers: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None

    def __enter__(self) -> Peer:
        self._thread.start()
        self._server = self._do(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = self._server.sockets[0].getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        return self

    def __exit__(self, *_: object) -> None:
        self.die()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def die(self) -> None:
        """Stop listening and cut every connection, as a killed process does."""

        async def close() -> None:
            if self._server is not None:
                self._server.close()
            for task in asyncio.all_tasks():
                if task is not asyncio.current_task():
                    task.cancel()

        self._do(close())

    def _do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(5)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            size = next(
                (line[15:] for line in head.lower().split("\r\n") if line.startswith("content-length:")), "0"
            )
            body = json.loads(await reader.readexactly(int(size)) or b"null")
            self.headers.append(head)
            await self._answer(head.split()[1], body, writer)
            await writer.drain()
        except (asyncio.CancelledError, ConnectionError, asyncio.IncompleteReadError):
            writer.transport.abort()
        finally:
            writer.close()

    async def _answer(self, path: str, body: Any, writer: asyncio.StreamWriter) -> None:
        if path == "/generate":
            self.prompts.append(body["text"])
            mode = self.modes.pop(0) if len(self.modes) > 1 else self.modes[0]
            self.flying += 1
            self.peak = max(self.peak, self.flying)
            try:
                await getattr(self, f"_{mode}")(body, writer)
            finally:
                self.flying -= 1
        elif path == "/v1/chat/completions" and "ignore_eos" in body:
            await self._chat_load(body, writer)
        elif path == "/v1/chat/completions":
            self.chats.append(body)
            await self._chat(body, writer)
        elif path == "/flush_cache" and self.flush_status is not None:
            self.flushes += 1
            plain(writer, self.flush_status, "Cache flushed.")
        elif path == "/server_info" and self.server_info is not None:
            plain(writer, 200, json.dumps(self.server_info))
        elif path == "/metrics" and self.metrics is not None:
            plain(writer, 200, self.metrics())
        else:
            plain(writer, 404, "{}")

    async def _chat_load(self, body: Any, writer: asyncio.StreamWriter) -> None:
        """A chat completion of the load, streamed or whole, as the mode says."""
        self.prompts.append(body["messages"][-1]["content"])
        mode = self.modes.pop(0) if len(self.modes) > 1 else self.modes[0]
        usage = {"prompt_tokens": 100, "completion_tokens": 12, "prompt_tokens_details": {"cached_tokens": 1}}
        details = {"spec_tokens_details": {"spec_verify_ct": 4, "spec_num_correct_drafts": 8}}
        if not body["stream"]:
            message = {"role": "assistant", "content": self.text}
            whole = {"choices": [{"message": message, "finish_reason": "length"}], "usage": usage}
            plain(writer, 200, json.dumps({**whole, "sglext": details}))
            return
        start_stream(writer)
        for step in range(STEPS):
            await asyncio.sleep(self.step_s)
            part = self.text[len(self.text) * step // STEPS : len(self.text) * (step + 1) // STEPS]
            name = "reasoning_content" if mode == "chat_thinks" and step < 2 else "content"
            delta = {name: part, **({"role": "assistant"} if step == 0 else {})}
            if mode == "chat_error" and step == 1:
                chunk(writer, event({"error": {"message": "the batch is broken", "code": 500}}))
                chunk(writer, b"")
                return
            reason = "length" if step == STEPS - 1 else None
            counted = {"completion_tokens": (step + 1) * 3} if mode == "chat_counts" else None
            choices = [{"index": 0, "delta": delta, "finish_reason": reason}]
            chunk(writer, event({"choices": choices, "usage": counted}))
            await writer.drain()
            if mode == "chat_breaks" and step == 1:
                chunk(writer, b"")
                return
        chunk(writer, event({"choices": [], "usage": usage, "sglext": details}))
        chunk(writer, b"data: [DONE]\n\n")
        chunk(writer, b"")

    async def _chat(self, body: Any, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(self.step_s)
        answer = self.answers.get(body["messages"][-1]["content"], "I do not know.")
        if isinstance(answer, int):
            plain(writer, answer, '{"error": "no"}')
            return
        message = answer if isinstance(answer, dict) else {"role": "assistant", "content": answer}
        plain(
            writer, 200, json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
        )

    def _event(self, step: int, finish: Any = None, **more: Any) -> bytes:
        tokens = step * TOKENS_PER_STEP
        part = int(len(self.text) * step / STEPS)
        meta = {
            "completion_tokens": tokens,
            "prompt_tokens": 100,
            "cached_tokens": 1,
            "spec_verify_ct": step,
            "spec_num_correct_drafts": tokens - step,
            "finish_reason": finish,
        }
        meta = {key: value for key, value in {**meta, **more}.items() if value != "absent"}
        return b"data: " + json.dumps({"text": self.text[:part], "meta_info": meta}).encode() + b"\n\n"

    async def _stream(self, writer: asyncio.StreamWriter, last: int = STEPS, **more: Any) -> None:
        start_stream(writer)
        for step in range(1, last + 1):
            await asyncio.sleep(self.step_s)
            finish = {"type": "length", "length": 12} if step == STEPS else None
            chunk(writer, self._event(step, finish, **more))
            await writer.drain()

    async def _ok(self, body: Any, writer: asyncio.StreamWriter) -> None:
        if not body["stream"]:
            await asyncio.sleep(self.step_s)
            whole = self._event(STEPS, {"type": "length", "length": 12})
            plain(writer, 200, whole.removeprefix(b"data: ").decode())
            return
        await self._stream(writer)
        chunk(writer, b"data: [DONE]\n\n")
        chunk(writer, b"")

    async def _no_speculation(self, body: Any, writer: asyncio.StreamWriter) -> None:
        await self._stream(writer, spec_verify_ct="absent", spec_num_correct_drafts="absent")
        chunk(writer, b"data: [DONE]\n\n")
        chunk(writer, b"")

    async def _without_done(self, body: Any, writer: asyncio.StreamWriter) -> None:
        await self._stream(writer)
        chunk(writer, b"")

    async def _incremental(self, body: Any, writer: asyncio.StreamWriter) -> None:
        start_stream(writer)
        for step in range(1, STEPS + 1):
            meta = {"completion_tokens": step, "spec_verify_ct": step, "finish_reason": None}
            chunk(
                writer,
                b"data: " + json.dumps({"text": f"part {step}. ", "meta_info": meta}).encode() + b"\n\n",
            )
        chunk(writer, b"data: [DONE]\n\n")
        chunk(writer, b"")

    async def _odd_pieces(self, body: Any, writer: asyncio.StreamWriter) -> None:
        """CRLF line ends, a comment, an event name, a character and a frame cut in two by chunk borders."""
        start_stream(writer)
        whole = b": ping\r\n\r\n" + b"event: token\r\n" + self._event(1).replace(b"\n", b"\r\n")
        whole += self._event(STEPS, {"type": "stop"}).replace(b"\n", b"\r\n") + b"data: [DONE]\r\n\r\n"
        for place in range(0, len(whole), 7):
            chunk(writer, whole[place : place + 7])
            await writer.drain()
        chunk(writer, b"")

    async def _counts_late(self, body: Any, writer: asyncio.StreamWriter) -> None:
        start_stream(writer)
        chunk(writer, self._event(STEPS, {"type": "stop"}, completion_tokens=12.0))
        chunk(writer, b"data: [DONE]\n\n")
        chunk(writer, b"")

    async def _silence(self, body: Any, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    async def _stall(self, body: Any, writer: asyncio.StreamWriter) -> None:
        await self._stream(writer, last=2)
        await asyncio.sleep(60)

    async def _trickle(self, body: Any, writer: asyncio.StreamWriter) -> None:
        start_stream(writer)
        while True:
            chunk(writer, b": still here\n\n")
            await writer.drain()
            await asyncio.sleep(0.05)

    async def _half_chunk(self, body: Any, writer: asyncio.StreamWriter) -> None:
        await self._stream(writer, last=2)
        writer.write(b'400\r\ndata: {"text": "half')

    async def _early_end(self, body: Any, writer: asyncio.StreamWriter) -> None:
        await self._stream(writer, last=2)
        chunk(writer, b"")

    async def _reset(self, body: Any, writer: asyncio.StreamWriter) -> None:
        await self._stream(writer, last=2)
        await asyncio.sleep(0.05)
        reset(writer)

    async def _reset_at_once(self, body: Any, writer: asyncio.StreamWriter) -> None:
        reset(writer)

    async def _hang_up(self, body: Any, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def _error_frame(self, body: Any, writer: asyncio.StreamWriter) -> None:
        await self._stream(writer, last=1)
        error = {"message": "the batch is broken", "type": "InternalError", "code": 500, "retryable": False}
        chunk(writer, b"data: " + json.dumps({"error": error}).encode() + b"\n\n")
        chunk(writer, b"data: [DONE]\n\n")
        chunk(writer, b"")

    async def _aborted(self, body: Any, writer: asyncio.StreamWriter) -> None:
        start_stream(writer)
        chunk(writer, self._event(1, {"type": "abort", "message": "out of memory"}))
        chunk(writer, b"data: [DONE]\n\n")
        chunk(writer, b"")

    async def _not_json(self, body: Any, writer: asyncio.StreamWriter) -> None:
        start_stream(writer)
        chunk(writer, b'data: {"text": oh no\n\n')
        chunk(writer, b"data: [DONE]\n\n")
        chunk(writer, b"")

    async def _garbage_midway(self, body: Any, writer: asyncio.StreamWriter) -> None:
        await self._stream(writer, last=2)
        chunk(writer, b'data: {"text": "half a fra\n\n')
        chunk(writer, self._event(STEPS, {"type": "length", "length": 12}))
        chunk(writer, b"data: [DONE]\n\n")
        chunk(writer, b"")

    async def _odd_counts(self, body: Any, writer: asyncio.StreamWriter) -> None:
        start_stream(writer)
        chunk(writer, self._event(STEPS, {"type": "stop"}, cached_tokens=float("nan"), spec_verify_ct="4"))
        chunk(writer, b"data: [DONE]\n\n")
        chunk(writer, b"")

    async def _flood(self, body: Any, writer: asyncio.StreamWriter) -> None:
        start_stream(writer)
        while True:
            chunk(writer, b"data: " + b"x" * 500_000)
            await writer.drain()

    async def _error_body(self, body: Any, writer: asyncio.StreamWriter) -> None:
        plain(writer, 200, json.dumps({"error": {"message": "the batch is broken", "code": 500}}))

    async def _empty(self, body: Any, writer: asyncio.StreamWriter) -> None:
        start_stream(writer)
        chunk(writer, b"data: [DONE]\n\n")
        chunk(writer, b"")

    async def _busy(self, body: Any, writer: asyncio.StreamWriter) -> None:
        more = f"Retry-After: {self.retry_after}\r\n" if self.retry_after else ""
        plain(writer, 429, '{"error": {"message": "too many requests"}}', more)

    async def _unavailable(self, body: Any, writer: asyncio.StreamWriter) -> None:
        plain(writer, 503, "not now")

    async def _nonsense(self, body: Any, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\x16\x03\x01 this is no HTTP\r\n\r\n")

    async def _quotes_the_word_error(self, body: Any, writer: asyncio.StreamWriter) -> None:
        self.text = '{"error": "is what the model wrote"} ' * 8
        await self._ok(body, writer)


def plain(writer: asyncio.StreamWriter, status: int, body: str, more: str = "") -> None:
    """A whole answer."""
    data = body.encode()
    head = f"HTTP/1.1 {status} Whatever\r\n{more}Content-Length: {len(data)}\r\n\r\n"
    writer.write(head.encode() + data)


def event(value: Any) -> bytes:
    """One frame of an event stream."""
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def start_stream(writer: asyncio.StreamWriter) -> None:
    """The head of an event stream."""
    writer.write(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
        b"Connection: close\r\n\r\n"
    )


def chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    """One chunk; an empty one ends the stream."""
    writer.write(b"%x\r\n%s\r\n" % (len(data), data))


def reset(writer: asyncio.StreamWriter) -> None:
    """Cut the connection with a TCP reset."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
