"""The load client against an independent tool, AIPerf: same requests, same server, interleaved pairs.

    python -m venv ~/aiperf && ~/aiperf/bin/pip install 'aiperf>=0.13,<0.14'
    python tests/bench/bench_against_other_tool.py --tool ~/aiperf/bin/aiperf

Both send the same prompts in the same order to one server, as streamed chat completions in a closed loop.
From the records of single requests that each writes, the same two figures are taken: tokens / (first send to
last finish), whose median ratio over the pairs should be within 1 %, and the median time to first token,
within 5 % or 1 ms. The server answers at times that are set beforehand, so that what differs is the clients.
AIPerf loses about two tenths of a second when its measured phase begins and between the rounds of a closed
loop, whatever the load, so a run must last: five pairs take twelve minutes of an idle machine.
Without --tool (or AIPERF in the environment) there is nothing to compare with, which is said.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "plugins/module_utils"))

from treeline import material
from treeline_target import load_points, load_prompts, load_run, load_spec

MODEL = "mock-model"
SEED = "against-another-tool"


@dataclass(frozen=True)
class Sizes:
    """One run of either tool."""

    requests: int
    concurrency: int
    tokens: int
    step_s: float
    first_s: float


@dataclass(frozen=True)
class Figures:
    """What a tool's records say: tokens per second, and the median time to first token in milliseconds."""

    tok_s: float
    ttft_ms: float
    requests: int


def serve(sizes: Sizes, link: Connection) -> None:
    """Stream chat completions at times that are set when a request arrives, until the process is ended."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    common = {"id": "0123456789abcdef", "object": "chat.completion.chunk", "created": 1, "model": MODEL}

    def frame(value: object) -> bytes:
        data = b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"
        return b"%x\r\n%s\r\n" % (len(data), data)

    def chunk(number: int) -> bytes:
        reason = "length" if number == sizes.tokens - 1 else None
        choice = {"index": 0, "delta": {"role": "assistant", "content": " word"}, "finish_reason": reason}
        return frame({**common, "choices": [choice], "usage": None})

    chunks = [chunk(number) for number in range(sizes.tokens)]
    usage = {"prompt_tokens": 300, "completion_tokens": sizes.tokens, "total_tokens": 300 + sizes.tokens}
    end = frame({**common, "choices": [], "usage": usage}) + frame(b"[DONE]") + b"0\r\n\r\n"

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        try:
            request = (await reader.readuntil(b"\r\n\r\n")).lower()
            size = int(request.partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
            await reader.readexactly(size)
            if not request.startswith(b"post"):
                writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                return
            began = loop.time()
            writer.write(head)
            for number, data in enumerate(chunks):
                await asyncio.sleep(max(0.0, began + sizes.first_s + number * sizes.step_s - loop.time()))
                if writer.is_closing():  # a client may be done early, as one is with its warm-up
                    return
                writer.write(data)
            writer.write(end)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def run() -> None:
        server = await asyncio.start_server(one, "127.0.0.1", 0, backlog=1024)
        link.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


def prompts(sizes: Sizes) -> list[str]:
    """The request list: the prompts that our own client builds for its point."""
    key = load_spec.ClientKey(sizes.concurrency)
    built = load_prompts.Prompts(material.prompts(), SEED)
    return [built.build(load_points.measured(key).label, index) for index in range(sizes.requests)]


def ours(url: str, sizes: Sizes, folder: Path) -> Figures:
    """One point of our client, by its records."""
    spec = load_spec.Spec(
        base_url=url,
        client_keys=[load_spec.ClientKey(sizes.concurrency)],
        canaries=[],
        prompts=material.prompts(),
        prompts_seed=SEED,
        out_dir=str(folder),
        requests_per_key=sizes.requests,
        max_tokens=sizes.tokens,
        api="chat",
    )
    result = load_run.run(spec, load_run.Life())
    with gzip.open(result["requests_file"], "rt", encoding="utf-8") as stream:
        rows = [json.loads(line) for line in stream]
    rows = [row for row in rows if row["phase"] == "point" and row["error"] is None]
    span = max(row["last"] for row in rows) - min(row["sent"] for row in rows)
    ttft = statistics.median(row["first"] - row["sent"] for row in rows)
    return Figures(sum(row["tokens"] for row in rows) / span, ttft * 1000, len(rows))


def tokenizer(folder: Path) -> Path:
    """A tokenizer that AIPerf can load without a network; the server's counts are used all the same."""
    made = folder / "tokenizer"
    made.mkdir()
    model = {"type": "WordLevel", "vocab": {"[UNK]": 0, "</s>": 1}, "unk_token": "[UNK]"}
    whole = {"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}, "model": model}
    (made / "tokenizer.json").write_text(json.dumps(whole))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]", "eos_token": "</s>"}
    (made / "tokenizer_config.json").write_text(json.dumps(settings))
    return made


def theirs(tool: str, url: str, sizes: Sizes, folder: Path) -> Figures:
    """One run of AIPerf over the same list, by its records."""
    listed = folder / "prompts.jsonl"
    listed.write_text("".join(json.dumps({"text": prompt}) + "\n" for prompt in prompts(sizes)))
    done = subprocess.run(
        [
            *(tool, "profile", "--model", MODEL, "--url", url, "--endpoint-type", "chat", "--streaming"),
            *("--input-file", str(listed), "--custom-dataset-type", "single_turn"),
            *("--dataset-sampling-strategy", "sequential", "--tokenizer", str(tokenizer(folder))),
            *("--concurrency", str(sizes.concurrency), "--request-count", str(sizes.requests)),
            *("--use-server-token-count", "--extra-inputs", f"max_tokens:{sizes.tokens}"),
            # As ours does: one round of warm-up, a connection for each request; and nothing beside the load.
            *("--warmup-request-count", str(sizes.concurrency), "--connection-reuse-strategy", "never"),
            *("--workers-max", "2", "--record-processors", "1", "--no-gpu-telemetry", "--no-server-metrics"),
            *("--ui", "none", "--artifact-dir", str(folder)),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    exported = sorted(folder.rglob("profile_export.jsonl"))
    if done.returncode or not exported:
        sys.exit(f"{tool} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")
    rows = [json.loads(line) for line in exported[0].read_text().splitlines()]
    rows = [row for row in rows if not row.get("error")]
    rows = [row for row in rows if row["metadata"].get("benchmark_phase", "profiling") == "profiling"]
    begun = min(row["metadata"]["request_start_ns"] for row in rows)
    ended = max(row["metadata"]["request_end_ns"] for row in rows)
    tokens = sum(row["metrics"]["output_sequence_length"]["value"] for row in rows)
    ttft = statistics.median(row["metrics"]["time_to_first_token"]["value"] for row in rows)
    return Figures(tokens / ((ended - begun) / 1e9), ttft, len(rows))


def main() -> None:
    """Run the pairs and print them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tool", default=os.environ.get("AIPERF") or shutil.which("aiperf"), help="AIPerf")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--requests", type=int, default=12)
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=896)
    parser.add_argument("--first-ms", type=float, default=300.0, help="until the first token")
    parser.add_argument("--step-ms", type=float, default=20.0, help="between tokens")
    args = parser.parse_args()
    if not args.tool:
        print("AIPerf is not here; see the head of this file for how to install it. Nothing was compared.")
        return
    sizes = Sizes(args.requests, args.concurrency, args.tokens, args.step_ms / 1000, args.first_ms / 1000)
    near, far = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(sizes, far), daemon=True)
    server.start()
    url = f"http://127.0.0.1:{near.recv()}"
    pairs: list[tuple[Figures, Figures]] = []
    try:
        print(f"{sizes.requests} requests of {sizes.tokens} tokens, {sizes.concurrency} in flight")
        for number in range(args.pairs):
            with tempfile.TemporaryDirectory(prefix="treeline-bench-") as name:
                folder = Path(name)
                (folder / "theirs").mkdir()
                # Every other pair the other way round.
                if number % 2:
                    other = theirs(args.tool, url, sizes, folder / "theirs")
                    own = ours(url, sizes, folder / "ours")
                else:
                    own = ours(url, sizes, folder / "ours")
                    other = theirs(args.tool, url, sizes, folder / "theirs")
            pairs.append((own, other))
            print(
                f"  pair {number + 1}: {own.tok_s:.2f} and {other.tok_s:.2f} tok/s, "
                f"TTFT {own.ttft_ms:.2f} and {other.ttft_ms:.2f} ms, "
                f"{own.requests} and {other.requests} requests"
            )
    finally:
        server.terminate()
        server.join()
    ratio = statistics.median(own.tok_s / other.tok_s for own, other in pairs)
    own_ttft = statistics.median(own.ttft_ms for own, _ in pairs)
    other_ttft = statistics.median(other.ttft_ms for _, other in pairs)
    apart = abs(own_ttft - other_ttft)
    near_enough = apart <= max(1.0, 0.05 * other_ttft)
    print(f"load average of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"median ratio {ratio:.4f} ({'within' if abs(ratio - 1) <= 0.01 else 'NOT within'} 1 %)")
    print(f"TTFT medians {apart:.2f} ms apart ({'within' if near_enough else 'NOT within'} 5 % or 1 ms)")


if __name__ == "__main__":
    main()
