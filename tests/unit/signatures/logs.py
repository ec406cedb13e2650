"""Build small journals for tests: text as `journalctl -o short-iso` prints it, JSON as `-o json` does."""

from __future__ import annotations

import json
from typing import Any

STARTED = "Started sglang-ddtree-trial.service - SGLang trial."
DIED = (
    "sglang-ddtree-trial.service: Main process exited, code=killed, status=9/KILL",
    "sglang-ddtree-trial.service: Failed with result 'signal'.",
)
ARGS = "[2026-03-04 10:00:00] server_args=ServerArgs(speculative_algorithm='DDTREE', watchdog_timeout=300)"
LOADED = (
    "[2026-03-04 10:00:01 TP0] Init torch distributed begin.",
    "[2026-03-04 10:00:02 TP0] Load weight begin. avail mem=265.99 GB",
    "[2026-03-04 10:00:03 TP0] Load weight end. elapsed=1.0 s, avail mem=186.90 GB",
)
CAPTURE = (
    "[2026-03-04 10:00:04 TP0] Capture target verify CUDA graph begin. backend=full, num_tokens_per_req=17, x"
)
SERVING = (
    "[2026-03-04 10:00:05 TP0] max_total_num_tokens=412330, max_running_requests=64",
    "[2026-03-04 10:00:06] The server is fired up and ready to roll!",
)
CRASH = "[2026-03-04 10:00:07 TP0] Scheduler hit an exception: Traceback (most recent call last):"
SIGQUIT = (
    "[2026-03-04 10:00:07] SIGQUIT received. signum=None, frame=None. It usually means one child failed."
)


def decode(accept: float | None) -> str:
    """Return a decode line, without an acceptance length for None."""
    length = "" if accept is None else f"accept len: {accept:.2f}, accept rate: 0.10, "
    return f"[2026-03-04 10:01:00 TP0] Decode batch, #running-req: 1, {length}cuda graph: True, #queue-req: 0"


def text(*messages: str, second: int = 0) -> list[str]:
    """Return a text journal; a message that begins with `systemd: ` or `kernel: ` is theirs."""
    lines = []
    for number, message in enumerate(messages):
        minute, at = divmod(second + number, 60)
        stamp = f"2026-03-04T{10 + minute // 60:02d}:{minute % 60:02d}:{at:02d}+00:00"
        who = "python3[4711]:"
        if message.startswith("systemd: "):
            who, message = "systemd[1]:", message.removeprefix("systemd: ")
        elif message.startswith("kernel: "):
            who, message = "kernel:", message.removeprefix("kernel: ")
        lines.append(f"{stamp} gpu-1 {who} {message}")
    return lines


def entry(message: Any, *, at: int = 1, pid: int = 4711, invocation: str = "a" * 32, **fields: Any) -> str:
    """Return one JSON journal line of the unit's own process."""
    values = {
        "__REALTIME_TIMESTAMP": str(at * 1_000_000),
        "_TRANSPORT": "stdout",
        "SYSLOG_IDENTIFIER": "python3",
        "_PID": str(pid),
        "_SYSTEMD_INVOCATION_ID": invocation,
        "MESSAGE": message,
        **fields,
    }
    return json.dumps(
        {name: value for name, value in values.items() if value is not None}, separators=(",", ":")
    )


def systemd(message: str, *, at: int = 1, invocation: str = "a" * 32) -> str:
    """Return one JSON journal line of systemd about the unit."""
    fields = {"_SYSTEMD_INVOCATION_ID": None, "INVOCATION_ID": invocation, "_TRANSPORT": "journal"}
    return entry(message, at=at, pid=1, SYSLOG_IDENTIFIER="systemd", **fields)


def kernel(message: str, *, at: int = 1) -> str:
    """Return one JSON journal line of the kernel."""
    fields = {"_SYSTEMD_INVOCATION_ID": None, "_PID": None, "_TRANSPORT": "kernel"}
    return entry(message, at=at, SYSLOG_IDENTIFIER="kernel", **fields)
