"""CPU time of the load client for each streamed token: python tests/bench/bench_load_client.py.

The server runs in a process of its own and streams as SGLang does: cumulative text, one frame a step. The
budget is 50 microseconds of client CPU a token; one token a frame is the worst case, trees give about four.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import sys
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "plugins/module_utils"))

from treeline_target import load_points, load_spec
from treeline_target.load_client import Client

BUDGET_US = 50
TOKENS = 256
CONCURRENCY = 32
WORDS = ("def", "value", "return", "self", "for", "in", "if", "not", "class", "import", "None", "result")


def frames(tokens_per_frame: int) -> list[bytes]:
    """The frames of one answer, each as one HTTP chunk."""
    found, text = [], ""
    for done in range(tokens_per_frame, TOKENS + 1, tokens_per_frame):
        text += " " + " ".join(WORDS[at % len(WORDS)] for at in range(tokens_per_frame))
        meta = {
            "id": "0123456789abcdef0123456789abcdef",
            "finish_reason": {"type": "length", "length": TOKENS} if done == TOKENS else None,
            "prompt_tokens": 320,
            "completion_tokens": done,
            "cached_tokens": 1,
            "spec_verify_ct": done // tokens_per_frame,
        }
        found.append(b"data: " + json.dumps({"text": text, "meta_info": meta}).encode() + b"\n\n")
    found.append(b"data: [DONE]\n\n")
    return [b"%x\r\n%s\r\n" % (len(frame), frame) for frame in found]


def serve(tokens_per_frame: int, link: Connection) -> None:
    """Answer every POST with the same stream until the process is ended."""
    answer = frames(tokens_per_frame)
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
        server = await asyncio.start_server(one, "127.0.0.1", 0)
        link.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


def microseconds_per_token(tokens_per_frame: int) -> tuple[float, float, float]:
    """Client CPU for each token, the kernel's part of it, and client CPU for each frame."""
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(tokens_per_frame, theirs), daemon=True)
    server.start()
    try:
        spec = load_spec.Spec(
            base_url=f"http://127.0.0.1:{ours.recv()}",
            client_keys=[load_spec.ClientKey(CONCURRENCY)],
            canaries=[],
            prompts=["\n".join(WORDS * 100)],
            prompts_seed="bench",
            out_dir="",
            max_tokens=TOKENS,
        )
        run = load_points.measured(spec.client_keys[0])

        async def load() -> None:
            async with Client(spec.base_url, spec.limits) as client:
                await load_points.closed_loop(client, spec, run, 4 * CONCURRENCY, TOKENS)

        began = os.times()
        asyncio.run(load())
        ended = os.times()
        kernel = ended.system - began.system
        spent = ended.user - began.user + kernel
        tokens = sum(record.exchange.tokens or 0 for record in run.records)
        chunks = sum(record.exchange.chunks for record in run.records)
        failed = [record.exchange.error for record in run.records if record.exchange.error]
        if failed:
            sys.exit(f"{len(failed)} requests failed: {failed[0]}")
        return spent / tokens * 1e6, kernel / tokens * 1e6, spent / chunks * 1e6
    finally:
        server.terminate()
        server.join()


def main() -> None:
    """Print one line for each size of frame."""
    print(
        f"load client, {CONCURRENCY} requests in flight, {TOKENS} tokens each; budget {BUDGET_US} us a token"
    )
    for tokens_per_frame in (1, 4):
        token, kernel, frame = microseconds_per_token(tokens_per_frame)
        verdict = "within budget" if token <= BUDGET_US else "OVER BUDGET"
        cost = f"{token:5.1f} us a token ({kernel:.1f} of them in the kernel), {frame:5.1f} us a frame"
        print(f"  {tokens_per_frame} token(s) a frame: {cost} ({verdict})")


if __name__ == "__main__":
    main()
