"""Print how fast journals are classified: `python tests/bench/bench_classifier.py [MEGABYTES]`.

The journals are generated: a normal start, then decode, prefill and access lines as a busy service writes
them, and a death in serving at the end. Figures are printed, not asserted: they depend on the machine.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from treeline.signatures import classify_journal
from treeline.signatures.catalogue import load_catalogue

_BEGIN = (
    "[2026-03-04 10:00:01] server_args=ServerArgs(model_path='/srv/model', speculative_algorithm='DDTREE')",
    "[2026-03-04 10:00:02 TP0] Init torch distributed begin.",
    "[2026-03-04 10:00:03 TP0] Load weight begin. avail mem=265.99 GB",
    "[2026-03-04 10:00:04 TP0] Load weight end. elapsed=1.0 s, avail mem=186.90 GB",
    "[2026-03-04 10:00:05 TP0] Capture target verify CUDA graph begin. backend=full, num_tokens_per_req=17",
    "[2026-03-04 10:00:06 TP0] max_total_num_tokens=412330, max_running_requests=64, context_len=131072",
    "[2026-03-04 10:00:07] The server is fired up and ready to roll!",
)
_BUSY = (
    "[2026-03-04 10:01:00 TP0] Decode batch, #running-req: 64, #token: 9000, token usage: 0.02, "
    "accept len: 4.52, accept rate: 0.50, cuda graph: True, gen throughput (token/s): 2913.3, #queue-req: 0",
    "[2026-03-04 10:01:00 TP0] Prefill batch, #new-seq: 1, #new-token: 812, #cached-token: 0, "
    "token usage: 0.02, #running-req: 63, #queue-req: 0",
    '[2026-03-04 10:01:00] INFO:     10.40.3.9:37445 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
)
_END = (
    "[2026-03-04 11:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):",
    "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
    "[2026-03-04 11:00:00] SIGQUIT received. signum=None, frame=None. It usually means one child failed.",
)


def _messages(size: int, width: Callable[[str], int]) -> Iterator[str]:
    yield from _BEGIN
    written = 0
    while written < size:
        for message in _BUSY:
            written += width(message)
            yield message
    yield from _END


def _text_line(message: str) -> bytes:
    return f"2026-03-04T10:00:00+00:00 gpu-1 python3[4711]: {message}\n".encode()


def _json_line(message: str) -> bytes:
    fields = {
        "__CURSOR": "s=bcc4d055ba141d0d3210ee35d7698bb8;i=4a11;b=8bb8967d53ee0123d0d141ab;t=64e79",
        "__REALTIME_TIMESTAMP": "1775135113684479",
        "_BOOT_ID": "8bb8967d53ee0123d0d141ab550d4ccb",
        "_TRANSPORT": "stdout",
        "PRIORITY": "6",
        "SYSLOG_IDENTIFIER": "python3",
        "_PID": "4711",
        "_CMDLINE": "python3 -m sglang.launch_server --speculative-algorithm DDTREE --tp-size 8",
        "_SYSTEMD_UNIT": "sglang-ddtree-trial.service",
        "_SYSTEMD_INVOCATION_ID": "1e6512291a3a557718aa4d36c8d857fd",
        "MESSAGE": message,
    }
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def main(megabytes: int) -> None:
    """Generate each form of journal at the asked size, classify it, print MB of journal per second."""
    load_catalogue()
    with tempfile.TemporaryDirectory() as folder:
        for name, line in (("text", _text_line), ("json", _json_line)):
            content = b"".join(
                map(line, _messages(megabytes * 10**6, lambda text, line=line: len(line(text))))
            )
            plain, packed = Path(folder, name), Path(folder, f"{name}.gz")
            plain.write_bytes(content)
            packed.write_bytes(gzip.compress(content, 1))
            for path in (plain, packed):
                begin, cpu = time.perf_counter(), time.process_time()
                verdict = classify_journal(path, alive=False)
                seconds = time.perf_counter() - begin
                busy = time.process_time() - cpu
                if verdict.class_ != "illegal_address":
                    raise SystemExit(f"{path.name}: expected illegal_address, got {verdict.class_}")
                print(
                    f"{path.name:8} {len(content) / 1e6:7.1f} MB of journal, {verdict.lines} lines, "
                    f"{seconds:6.2f} s ({busy:.2f} s of CPU), {len(content) / 1e6 / seconds:6.0f} MB/s, "
                    f"{len(content) / 1e6 / busy:6.0f} MB/s of CPU time"
                )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
