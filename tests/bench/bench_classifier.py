"""Print how fast logs are classified, and in how much memory: `bench_classifier.py [--mb 500]`.

The log is generated (seeded) into a temporary folder: an eight-rank start with graph capture, hours of
decode, prefill and access lines, warnings and tracebacks of refused requests in between, and a death with the
tracebacks of all ranks interleaved. Each measurement runs in a process of its own. Figures are printed, not
asserted: they depend on the machine. With more classes than the catalogue has, the others are made up.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

RANKS = 8
# Sizes of larger catalogues, beside the one that there is.
LARGER = (200, 1000)
_TRACE = (
    '  File "/opt/sgl/lib/python3.12/site-packages/sglang/scheduler.py", line 731, in event_loop',
    '  File "/opt/sgl/lib/python3.12/site-packages/sglang/dflash_worker.py", line 415, in verify',
)


class Writer:
    """Writes messages as lines of journal text or JSON."""

    def __init__(self, form: str, seed: int = 7) -> None:
        self.form = form
        self.random = random.Random(seed)
        self.second = 0

    def line(self, message: str, rank: int | None) -> bytes:
        """Return a line of a rank's process, or of the parent's for None."""
        stamp = f"{self.second // 3600 % 24:02d}:{self.second // 60 % 60:02d}:{self.second % 60:02d}"
        tag = "" if rank is None else f" TP{rank}"
        if not message.startswith((" ", "torch.", "ValueError", "Compile", "For debugging")):
            message = f"[2026-03-04 {stamp}{tag}] {message}"
        pid = 4000 if rank is None else 4711 + rank
        if self.form == "text":
            return f"2026-03-04T{stamp}+00:00 gpu-1 python3[{pid}]: {message}\n".encode()
        fields = {
            "__CURSOR": "s=bcc4d055ba141d0d3210ee35d7698bb8;i=4a11;b=8bb8967d53ee0123d0d141ab;t=64e79",
            "__REALTIME_TIMESTAMP": str(1_775_135_113_684_479 + self.second * 1_000_000),
            "_BOOT_ID": "8bb8967d53ee0123d0d141ab550d4ccb",
            "_TRANSPORT": "stdout",
            "PRIORITY": "6",
            "SYSLOG_IDENTIFIER": "python3",
            "_PID": str(pid),
            "_CMDLINE": "python3 -m sglang.launch_server --speculative-algorithm DDTREE --tp-size 8",
            "_SYSTEMD_UNIT": "sglang-ddtree-trial.service",
            "_SYSTEMD_INVOCATION_ID": "1e6512291a3a557718aa4d36c8d857fd",
            "MESSAGE": message,
        }
        return json.dumps(fields, separators=(",", ":")).encode() + b"\n"

    def start(self) -> Iterator[bytes]:
        """Yield an eight-rank start."""
        args = "server_args=ServerArgs(model_path='/srv/model', speculative_algorithm='DDTREE', tp_size=8)"
        yield self.line(args, None)
        for message in (
            "Init torch distributed begin.",
            "Load weight begin. avail mem=265.99 GB",
            "Load weight end. elapsed=61.0 s, avail mem=186.90 GB",
            "Capture target verify CUDA graph begin. backend=full, num_tokens_per_req=17, avail mem=9.1 GB",
            "Capture target verify CUDA graph end. bs=[1, 2, 4], elapsed=41.0 s",
            "max_total_num_tokens=412330, max_running_requests=64, context_len=131072",
        ):
            self.second += 20
            yield from (self.line(message, rank) for rank in range(RANKS))
        yield self.line("The server is fired up and ready to roll!", None)

    def busy(self) -> bytes:
        """Return about a hundred lines of ordinary work."""
        lines = []
        for number in range(25):
            self.second += 1
            tokens, speed = self.random.randrange(9000), self.random.uniform(900, 4000)
            lines += [
                self.line(
                    f"Decode batch, #running-req: 64, #token: {tokens}, token usage: 0.02, accept len: 4.52, "
                    f"accept rate: 0.50, cuda graph: True, gen throughput (token/s): {speed:.2f}, "
                    "#queue-req: 0",
                    number % RANKS,
                ),
                self.line(
                    f"Prefill batch, #new-seq: 1, #new-token: {tokens}, #cached-token: 0, token usage: 0.02, "
                    "#running-req: 63, #queue-req: 0",
                    number % RANKS,
                ),
                self.line(
                    f'INFO:     10.40.3.9:{tokens + 30000} - "POST /v1/chat/completions HTTP/1.1" 200 OK',
                    None,
                ),
            ]
        lines.append(self.line("KV cache pool is full. Retract requests. #retracted_reqs: 3", 0))
        lines.append(self.line("Error in request: Traceback (most recent call last):", None))
        lines += [self.line(frame, None) for frame in _TRACE]
        lines.append(
            self.line("ValueError: the prompt has 140001 tokens, the context length is 131072", None)
        )
        return b"".join(lines)

    def death(self) -> Iterator[bytes]:
        """Yield the death: eight tracebacks, interleaved line by line."""
        messages = (
            "Scheduler hit an exception: Traceback (most recent call last):",
            *_TRACE * 10,
            "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
            "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
            "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
        )
        for message in messages:
            yield from (self.line(message, rank) for rank in self.random.sample(range(RANKS), RANKS))
        yield self.line("SIGQUIT received. signum=None, frame=None. It usually means one child failed.", None)


def generate(path: Path, form: str, megabytes: int) -> None:
    """Write a log of a size."""
    writer = Writer(form)
    with path.open("wb") as file:
        file.writelines(writer.start())
        while file.tell() < megabytes * 10**6:
            file.write(writer.busy())
        file.writelines(writer.death())


def extra_classes(path: Path, count: int) -> None:
    """Write a catalogue of made-up classes, three strings each."""
    chosen = random.Random(count)
    lines = ["schema_version: 1", "classes:" if count else "classes: []"]
    for number in range(count):
        words = [
            f"'made-up fault {number} of part {chosen.randrange(10**6)} step {step}'" for step in range(3)
        ]
        lines.append(
            f"  - {{id: made_up_{number}, tier: application, layer: none, kind: config, advice: none, "
            f"literals: [{', '.join(words)}], regex: ['made-up fault {number} of part \\d+']}}"
        )
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def measure_here(log: Path, catalogue: Path | None) -> dict[str, float]:
    """Classify a log in this process; seconds by the wall and of CPU, and the most memory it ever held."""
    from treeline.signatures import classify_journal
    from treeline.signatures.catalogue import load_catalogue
    from treeline.signatures.classify import search_engine

    classes = len(load_catalogue([catalogue] if catalogue else []).signatures)
    classify_journal(["warm up"], alive=False, catalogue=[catalogue] if catalogue else [])
    wall, cpu = time.perf_counter(), time.process_time()
    verdict = classify_journal(log, alive=False, catalogue=[catalogue] if catalogue else [])
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    if verdict.class_ != "illegal_address" or verdict.phase != "serving" or verdict.rank is None:
        raise SystemExit(f"{log.name}: expected illegal_address in serving, got {verdict.class_}")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    name, _ = search_engine()
    return {"wall": wall, "cpu": cpu, "rss": most, "classes": classes, "lines": verdict.lines, "engine": name}


def measured(log: Path, catalogue: Path | None = None) -> dict[str, float]:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "--measure", str(log), *([str(catalogue)] if catalogue else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def main() -> None:
    """Generate logs, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb", type=int, default=64, help="size of the log in MB (10^6 bytes)")
    parser.add_argument("--measure", nargs="+", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        print(json.dumps(measure_here(*chosen.measure, *[None] * (2 - len(chosen.measure)))))
        return
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "text.log")
        generate(text, "text", chosen.mb)
        size = text.stat().st_size / 1e6

        def show(name: str, figures: dict[str, float], megabytes: float) -> None:
            print(
                f"{name:22} {megabytes:6.0f} MB, {figures['lines']:8.0f} lines: {figures['wall']:6.2f} s, "
                f"{megabytes / figures['wall']:5.0f} MB/s ({megabytes / figures['cpu']:5.0f} MB/s of CPU), "
                f"memory {figures['rss']:4.0f} MB, searched by {figures['engine']}"
            )

        show("text", measured(text), size)
        times: dict[int, float] = {}
        shipped = shipped_classes()
        for wanted in (shipped, *LARGER):
            own = Path(folder, f"{wanted}.yml")
            extra_classes(own, max(wanted - shipped, 0))
            runs = [measured(text, own) for _ in range(2)]
            best = min(runs, key=lambda figures: figures["cpu"])
            times[wanted] = best["cpu"]
            show(f"text, {best['classes']:.0f} classes", best, size)
        base = times[shipped]
        ratios = ", ".join(f"{wanted}: {seconds / base:.2f}" for wanted, seconds in times.items())
        print(f"time by number of classes, of that with the catalogue's {shipped}: {ratios}")
        text.unlink()
        smaller = min(chosen.mb, 64)
        packed = Path(folder, "text.log.gz")
        generate(text, "text", smaller)
        with text.open("rb") as plain, gzip.open(packed, "wb", compresslevel=1) as archive:
            shutil.copyfileobj(plain, archive)
        show("text.gz (unpacked size)", measured(packed), text.stat().st_size / 1e6)
        as_json = Path(folder, "log.jsonl")
        generate(as_json, "json", smaller)
        show("json", measured(as_json), as_json.stat().st_size / 1e6)


def shipped_classes() -> int:
    """Classes of the built-in catalogue."""
    from treeline.signatures.catalogue import load_catalogue

    return len(load_catalogue([]).signatures)


if __name__ == "__main__":
    main()
