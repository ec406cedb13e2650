"""CPU time of the load client for each streamed token, and the rate at which it reads them.

    python tests/bench/bench_load_client.py [--tokens N] [--requests N] [--concurrency N] [--url URL]

The server runs in a process of its own and streams as SGLang does: cumulative text (or OpenAI's chunks), one
frame a step. The budget is 50 microseconds of client CPU a token; one token a frame is the worst case, trees
give about four. With --url the server there is loaded instead, such as the reference engine in replay mode
(`--replay`); what a token costs is then taken over the tokens that it sends.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "plugins/module_utils"))

from treeline_target import load_points, load_spec
from treeline_target.load_client import Client
from treeline_target.load_loops import Work, closed_loop

BUDGET_US = 50
WORDS = ("def", "value", "return", "self", "for", "in", "if", "not", "class", "import", "None", "result")


@dataclass(frozen=True)
class Shape:
    """How a server streams: tokens in each frame, by which API."""

    tokens_per_frame: int
    api: str

    def __str__(self) -> str:
        return f"{self.api:6} {self.tokens_per_frame} token(s) a frame"


SHAPES = (Shape(1, "native"), Shape(4, "native"), Shape(1, "chat"))


def native_frames(tokens: int, step: int) -> Iterator[bytes]:
    """SGLang's own stream."""
    text = ""
    for done in range(step, tokens + 1, step):
        text += " " + " ".join(WORDS[at % len(WORDS)] for at in range(step))
        meta = {
            "id": "0123456789abcdef0123456789abcdef",
            "finish_reason": {"type": "length", "length": tokens} if done == tokens else None,
            "prompt_tokens": 320,
            "completion_tokens": done,
            "cached_tokens": 1,
            "spec_verify_ct": done // step,
        }
        yield json.dumps({"text": text, "meta_info": meta}).encode()


def chat_frames(tokens: int, step: int) -> Iterator[bytes]:
    """OpenAI's chunks, and the usage at the end."""
    head = {"id": "0123456789abcdef", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    for done in range(step, tokens + 1, step):
        delta = {"content": " " + " ".join(WORDS[at % len(WORDS)] for at in range(step))}
        choice = {"index": 0, "delta": delta, "finish_reason": "length" if done == tokens else None}
        yield json.dumps({**head, "choices": [choice], "usage": None}).encode()
    usage = {"prompt_tokens": 320, "completion_tokens": tokens}
    yield json.dumps({**head, "choices": [], "usage": usage}).encode()


def serve(shape: Shape, tokens: int, link: Connection) -> None:
    """Answer every POST with the same stream until the process is ended."""
    make = chat_frames if shape.api == "chat" else native_frames
    frames = [b"data: %s\n\n" % frame for frame in (*make(tokens, shape.tokens_per_frame), b"[DONE]")]
    answer = [b"%x\r\n%s\r\n" % (len(frame), frame) for frame in frames]
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(request.partition(b"content-length:")[2].split(b"\r\n")[0] or 0))
        writer.write(head)
        for frame in answer:
            writer.write(frame)
            await writer.drain()
            await asyncio.sleep(0.002)  # so that frames arrive one by one, as an engine sends them
        writer.write(b"0\r\n\r\n")
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(one, "127.0.0.1", 0, backlog=1024)
        link.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


@contextmanager
def quick_server(shape: Shape, tokens: int) -> Iterator[str]:
    """Its address."""
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(shape, tokens, theirs), daemon=True)
    server.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        server.terminate()
        server.join()


def measure(url: str, api: str, tokens: int, concurrency: int, requests: int) -> str:
    """One line of figures. Exits when a request fails."""
    spec = load_spec.Spec(
        base_url=url,
        client_keys=[load_spec.ClientKey(concurrency)],
        canaries=[],
        prompts=["\n".join(WORDS * 100)],
        prompts_seed="bench",
        out_dir="",
        max_tokens=tokens,
        api=api,
    )
    run = load_points.measured(spec.client_keys[0])

    async def load() -> None:
        async with Client(url, spec.limits, api=api) as client:
            await closed_loop(Work.of(client, spec), run, requests, tokens)

    began, began_at = os.times(), time.monotonic()
    asyncio.run(load())
    ended, wall = os.times(), time.monotonic() - began_at
    kernel = ended.system - began.system
    spent = ended.user - began.user + kernel
    got = sum(record.exchange.tokens or 0 for record in run.records)
    chunks = sum(record.exchange.chunks for record in run.records)
    failed = [record.exchange.error for record in run.records if record.exchange.error]
    if failed:
        sys.exit(f"{len(failed)} of {run.sent} requests failed: {failed[0]}")
    token = spent / got * 1e6
    verdict = "within budget" if token <= BUDGET_US else "OVER BUDGET"
    return (
        f"{token:5.1f} us a token ({kernel / got * 1e6:.1f} of them in the kernel), "
        f"{spent / chunks * 1e6:5.1f} us an arrival, {got / wall:7.0f} tok/s read ({verdict})"
    )


def main() -> None:
    """Print one line for each shape."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=256, help="tokens of each answer")
    parser.add_argument("--requests", type=int, default=128)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--url", help="load this server instead of the quick one")
    parser.add_argument("--api", choices=load_spec.APIS, default="native", help="with --url")
    args = parser.parse_args()
    print(
        f"load client, {args.concurrency} requests in flight, {args.tokens} tokens each; "
        f"budget {BUDGET_US} us a token"
    )
    if args.url:
        print(f"  {args.url}: {measure(args.url, args.api, args.tokens, args.concurrency, args.requests)}")
        return
    for shape in SHAPES:
        with quick_server(shape, args.tokens) as url:
            print(f"  {shape}: {measure(url, shape.api, args.tokens, args.concurrency, args.requests)}")


if __name__ == "__main__":
    main()
