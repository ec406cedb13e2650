"""A trial as its host leaves it: step results in the shape of the modules, and an evidence archive."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path
from typing import Any

from treeline.keys import ClientKey, Item, Plan, RestartKey

GOOD_LOG = (
    "server_args=ServerArgs(model_path='/m', speculative_algorithm='DDTREE', api_key='sk-very-private')",
    "Init torch distributed begin.",
    "Load weight begin. avail mem=100.00 GB",
    "Load weight end. type=X, dtype=torch.bfloat16",
    "Capture cuda graph begin. This can take up to several minutes.",
    "max_total_num_tokens=100000, chunked_prefill_size=8192",
    "INFO:     Started server process [100]",
    "The server is fired up and ready to roll!",
    "Decode batch, #running-req: 1, #token: 100, accept len: 4.20, gen throughput (token/s): 100.0",
)
CRASH_LOG = (
    *GOOD_LOG[:5],
    "Capturing batches (bs=64 avail_mem=10.00 GB):   0%|          | 0/8",
    "Scheduler hit an exception: Traceback (most recent call last):",
    "RuntimeError: CUDA error: an illegal memory access was encountered",
    "Received sigquit from a child process. It usually means the child failed.",
)


def key(budget: int = 16, maxreq: int = 64) -> RestartKey:
    return RestartKey(budget=budget, topk=8, maxreq=maxreq, block_size=8, graphs=True)


def item(budget: int = 16) -> Item:
    return Item.of(key(budget), [ClientKey(concurrency=8), ClientKey(concurrency=1)], reason="grid")


def plan(*budgets: int) -> Plan:
    return Plan(kind="grid", items=tuple(item(budget) for budget in budgets))


def journal(*messages: str) -> bytes:
    lines = [
        {
            "MESSAGE": f"[2026-01-01 00:00:{n:02d} TP0] {text}",
            "__REALTIME_TIMESTAMP": str(1767225600000000 + n * 1000000),
            "_SYSTEMD_INVOCATION_ID": "new",
            "_PID": "100",
            "SYSLOG_IDENTIFIER": "python3",
        }
        for n, text in enumerate(messages)
    ]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def archive(path: Path, *messages: str, requests: int = 0, leave_out: str = "") -> Path:
    rows = b"".join(b'{"index": %d, "tokens": 128, "first": 0.5}\n' % n for n in range(requests))
    files = {
        "journal.jsonl.gz": gzip.compress(journal(*messages)),
        "show.txt": b"Id=sglang-ddtree-trial.service\n",
    }
    if requests:
        files["requests.ndjson.gz"] = gzip.compress(rows)
    files.pop(leave_out, None)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return path


def point(concurrency: int, **changes: Any) -> dict[str, Any]:
    return {
        "concurrency": concurrency,
        "context": None,
        "repeat": 1,
        "complete": True,
        "requests": 16,
        "failed": 0,
        "cancelled": 0,
        "errors": {},
        "completion_tokens": 2048,
        "verify_calls": 512,
        "al": 4.0,
        "output_tok_s": 100.0 * concurrency,
        "window": {"start": 0.1, "end": 2.1, "peak": concurrency, "share_at_peak": 1.0, "tokens": 200},
        "duration_s": 2.5,
        "ttft_p50_ms": 12.5,
        "cached_tokens": 0,
        "prompt_tokens": 4096,
        "prefix_cache_share": 0.0,
        "server_peak_running": concurrency,
        "engine": "reference",
        "simulated": True,
        "overrun_share": 0.01,
        "garble": {"flagged": 0, "of": 16, "not_available": 0},
        "at": "2026-01-01T00:00:30.000Z",
    } | changes


def good_steps(trial_id: str) -> dict[str, Any]:
    served = {"speculative_ddtree_budget": 16}
    return {
        "begin": {"previous_invocation_id": "old", "at_monotonic": 100.0, "changed": False},
        "configure": {},
        "restart": {"state": "started", "status": {"ActiveState": "active"}, "failed_when_result": False},
        "ready": {
            "outcome": "ready",
            "invocation_id": "new",
            "main_pid": 100,
            "started_at_monotonic": 100.5,
            "returned_at_monotonic": 105.0,
            "ready_s": 4.5,
            "mismatches": [],
            "served": served,
            "captured_width": 17,
            "proof": {"trial_id_in_env": trial_id, "expected_width": 17},
            "server_info": {"engine": "reference", "simulated_timing": True, "fault": {"extrapolated": True}},
        },
        "load": {
            "outcome": "done",
            "load_s": 5.0,
            "canaries": [
                {"id": f"c{n}", "phase": phase, "ok": True, "got": "x", "expect": "x"}
                for phase in ("single", "busiest")
                for n in range(8)
            ],
            "points": [point(8), point(1)],
            "engine": {"name": "reference", "simulated": True, "overrun_share": 0.01},
        },
        "evidence": {
            "alive": True,
            "end": {"invocation_id": "new", "ours": True},
            "lost_lines": 0,
            "notes": [],
        },
    }


def crash_steps() -> dict[str, Any]:
    steps = good_steps("x")
    steps["ready"] = {
        "failed": True,
        "outcome": "died",
        "msg": "it died before it was ready",
        "invocation_id": "new",
        "result": "signal",
        "phases": {"args": 100.6, "graph_capture": 103.0},
    }
    steps["load"] = {"skipped": True, "changed": False}
    steps["evidence"]["alive"] = False
    return steps
