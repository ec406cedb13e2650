"""Replay mode: recorded tokens at any rate, to measure whoever reads them.

    python -m treeline_reference_engine.replay --port 30000 --tokens-per-frame 4 --step-ms 10

A server that does next to nothing for a token: frames are made ahead and written as they are, so that a load
client's own cost shows. It answers /generate and /v1/chat/completions, streaming and not, with complete
counts, and the pages that tools ask first. Nothing is generated, and there is no speculation: it says
``"engine": "replay"``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from .replay_frames import Frames, event, load_recordings, made_up, record
from .replay_http import Connection, Stream

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_END = event("[DONE]") + b"0\r\n\r\n"


class Replay:
    """All streams, and the beat at which each gets its next frame."""

    def __init__(self, frames: Frames, step_s: float, model: str) -> None:
        self.frames = frames
        self.model = model
        self._step_s = step_s
        self._streams: list[Stream] = []
        self._beating = False
        self._next = 0
        self.totals = {"generation_tokens": 0, "prompt_tokens": 0, "num_requests": 0, "spec_verify_calls": 0}

    @property
    def running(self) -> int:
        """Answers that are being written."""
        return len(self._streams)

    def number(self) -> int:
        """Which recording the next request gets."""
        self._next += 1
        return (self._next - 1) % len(self.frames.recordings)

    def add(self, stream: Stream) -> None:
        """Begin to write an answer."""
        stream.connection.write(_HEAD)
        self._streams.append(stream)
        if not self._beating:
            self._beating = True
            asyncio.get_running_loop().call_soon(self._beat, time.monotonic())

    def _beat(self, due: float) -> None:
        left = []
        for stream in self._streams:
            if self._advance(stream):
                left.append(stream)
        self._streams = left
        loop = asyncio.get_running_loop()
        if not left:
            self._beating = False
        elif self._step_s:
            due = max(due, time.monotonic() - self._step_s) + self._step_s
            loop.call_later(max(0.0, due - time.monotonic()), self._beat, due)
        else:
            loop.call_soon(self._beat, due)

    def _advance(self, stream: Stream) -> bool:
        """Write the next frame; False when the answer is at its end or its reader has gone."""
        connection = stream.connection
        if connection.closed:
            return False
        if connection.paused:
            return True
        if stream.place < len(stream.frames):
            connection.write(stream.frames[stream.place])
            stream.place += 1
            return True
        connection.write(self._last(stream))
        connection.done()
        return False

    def _last(self, stream: Stream) -> bytes:
        seconds = time.perf_counter() - stream.began
        _, text, ids = self.frames.of(stream.which, stream.tokens, stream.chat)
        self.count(stream.prompt, stream.tokens)
        if not stream.chat:
            body = self.native(stream.which, text, ids, stream.prompt, seconds)
            return event(json.dumps(body, ensure_ascii=False)) + _END
        out = event(
            json.dumps(self.frames.chunk(stream.which, {"content": text}, "length"), ensure_ascii=False)
        )
        if stream.usage:
            usage = {**self.frames.head(stream.which, "chat.completion.chunk"), "choices": []}
            out += event(json.dumps({**usage, "usage": usage_of(stream.prompt, stream.tokens)}))
        return out + _END

    def native(self, which: int, text: str, ids: list[int], prompt: int, seconds: float) -> dict[str, Any]:
        """The whole answer of /generate."""
        calls = len(self.frames.counts(len(ids))) - 1
        finish = {"type": "length", "length": len(ids)}
        return self.frames.native(
            which, text, ids, calls, finish, {"prompt_tokens": prompt, "e2e_latency": seconds}
        )

    def chat(self, which: int, text: str, prompt: int, tokens: int) -> dict[str, Any]:
        """The whole answer of /v1/chat/completions."""
        message = {"role": "assistant", "content": text, "reasoning_content": None, "tool_calls": None}
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": "length",
            "matched_stop": None,
        }
        head = self.frames.head(which, "chat.completion")
        return {**head, "choices": [choice], "usage": usage_of(prompt, tokens), "metadata": {}}

    def count(self, prompt: int, tokens: int) -> None:
        """Note a finished answer."""
        self.totals["generation_tokens"] += tokens
        self.totals["prompt_tokens"] += prompt
        self.totals["num_requests"] += 1
        self.totals["spec_verify_calls"] += len(self.frames.counts(tokens)) - 1

    def page(self, path: str) -> tuple[int, bytes, str]:
        """(status, body, content type) of the pages that carry no answer."""
        if path in ("/health", "/health_generate", "/ready", "/ping"):
            return 200, b"", "text/plain"
        if path == "/flush_cache":
            return 200, b"Cache flushed.\n", "text/plain"
        if path in ("/metrics", "/metrics/"):
            return 200, self._metrics(), "text/plain; version=0.0.4; charset=utf-8"
        pages: dict[str, Any] = {
            "/v1/models": {
                "object": "list",
                "data": [{"id": self.model, "object": "model", "root": self.model}],
            },
            "/get_load": [{"dp_rank": 0, "num_reqs": self.running, "num_waiting_reqs": 0, "num_tokens": 0}],
        }
        info = {"model_path": self.model, "served_model_name": self.model, "is_generation": True}
        state = {"running_requests": self.running, "queued_requests": 0, "avg_spec_accept_length": None}
        server = {
            **info,
            "engine": "replay",
            "simulated_timing": True,
            "version": "replay",
            "stream_output": False,
        }
        server |= {"internal_states": [state], "status": "ready"}
        pages |= {
            "/model_info": info,
            "/get_model_info": info,
            "/server_info": server,
            "/get_server_info": server,
        }
        if path not in pages:
            return 404, b'{"detail": "Not Found"}', "application/json"
        return 200, json.dumps(pages[path]).encode(), "application/json"

    def _metrics(self) -> bytes:
        label = f'{{model_name="{self.model}"}}'
        lines = [f"# TYPE sglang:num_running_reqs gauge\nsglang:num_running_reqs{label} {self.running}"]
        for name, value in self.totals.items():
            lines.append(f"# TYPE sglang:{name}_total counter\nsglang:{name}_total{label} {value}")
        return ("\n".join(lines) + "\n").encode()


def usage_of(prompt: int, tokens: int) -> dict[str, Any]:
    details = {"prompt_tokens_details": {"cached_tokens": 0}}
    return {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens, **details}


async def serve(replay: Replay, host: str, port: int) -> None:
    """Serve until cancelled."""
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(replay), host, port, backlog=2048
    )
    where = server.sockets[0].getsockname()
    print(f"replay: serving on http://{where[0]}:{where[1]}", file=sys.stderr, flush=True)
    async with server:
        await server.serve_forever()


def main(argv: list[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m treeline_reference_engine.replay", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--served-model-name", default="replay")
    parser.add_argument("--tokens-per-frame", type=int, default=4, help="tokens of one step (1 to 8)")
    parser.add_argument(
        "--step-ms",
        type=float,
        default=0.0,
        help="time between two frames of an answer; 0 = as fast as may be",
    )
    parser.add_argument("--model-path", type=Path, help="record this model's own text at the start")
    parser.add_argument(
        "--recording", type=Path, help="JSON: [{'pieces': [text of each token], 'ids': [...]}]"
    )
    args = parser.parse_args(argv)
    if not 1 <= args.tokens_per_frame <= 8:
        parser.error(f"--tokens-per-frame must be 1 to 8, but got {args.tokens_per_frame}.")
    try:
        if args.model_path:
            recordings = record(args.model_path)
        else:
            recordings = load_recordings(args.recording) if args.recording else made_up()
    except (OSError, ValueError) as error:
        parser.error(str(error))
    frames = Frames(recordings, args.tokens_per_frame, 8, args.served_model_name)
    replay = Replay(frames, args.step_ms / 1000.0, args.served_model_name)
    try:
        asyncio.run(serve(replay, args.host, args.port))
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
