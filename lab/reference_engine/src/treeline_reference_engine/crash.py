"""How an engine's exception looks: the lines that SGLang 0.5.23 prints for an error in a scheduler process.

Strings that the software prints are kept; frame paths and line numbers are this engine's own invention, so no
line numbers here say anything about a real file.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from typing import Any

from .errors import EngineError
from .logs import DATE_FORMAT

_SITE = "/opt/sglang/lib/python3.12/site-packages/sglang/srt"
_Frame = tuple[str, int, str]
_FRAMES: Mapping[str, tuple[_Frame, ...]] = {
    "graph_capture": (
        (f"{_SITE}/managers/scheduler.py", 4211, "run_scheduler_process"),
        (f"{_SITE}/model_executor/model_runner_components/cuda_graph_setup.py", 764, "capture_decode_graph"),
        (f"{_SITE}/model_executor/runner/decode_cuda_graph_runner.py", 571, "__init__"),
        (f"{_SITE}/model_executor/runner/decode_cuda_graph_runner.py", 1388, "capture_one_batch_size"),
    ),
    "serving": (
        (f"{_SITE}/managers/scheduler.py", 4219, "run_scheduler_process"),
        (f"{_SITE}/managers/scheduler.py", 1507, "event_loop_normal"),
        (f"{_SITE}/managers/scheduler.py", 2790, "run_batch"),
        (f"{_SITE}/speculative/ddtree_worker.py", 388, "verify"),
    ),
    "init": (
        (f"{_SITE}/managers/scheduler.py", 4202, "run_scheduler_process"),
        (f"{_SITE}/managers/scheduler.py", 502, "__init__"),
        (f"{_SITE}/managers/tp_worker.py", 243, "__init__"),
        (f"{_SITE}/model_executor/model_runner.py", 611, "__init__"),
    ),
    "parent": (
        ("/opt/sglang/lib/python3.12/site-packages/sglang/launch_server.py", 31, "<module>"),
        (f"{_SITE}/server_args.py", 3812, "__post_init__"),
    ),
}
_TORCH_TAIL = (
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below "
    "might be incorrect.\n"
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
)
_SEARCH = (
    "Search for `{symbol}' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for "
    "more information.\n"
)
_SOLUTIONS = (
    "Possible solutions:\n"
    "1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n"
    "2. set --cuda-graph-max-bs-decode to a smaller value (e.g., 16)\n"
    "3. disable decode CUDA graph by --cuda-graph-backend-decode=disabled. (Not recommended. Huge "
    "performance loss)\n"
    "Open an issue on GitHub https://github.com/sgl-project/sglang/issues/new/choose \n"
)


def prefix(rank: int, tp_size: int) -> str:
    """What stands between the time and the bracket of a scheduler's line; empty at one rank."""
    return f" TP{rank}" if tp_size > 1 else ""


def fill(text: str, facts: Mapping[str, Any], rank: int, tp_size: int, pid: int) -> str:
    """``text`` with its placeholders filled in; ``facts``: bs, rows, short_rows."""
    values = {
        **facts,
        "rank": rank,
        "pid": pid,
        "tp": prefix(rank, tp_size),
        "time": time.strftime(DATE_FORMAT),
        "host": socket.gethostname(),
    }
    for name, value in values.items():
        text = text.replace("{" + name + "}", str(value))
    return text


def rank_text(
    error: EngineError, phase: str, rank: int, tp_size: int, pid: int, facts: Mapping[str, Any]
) -> str:
    """One rank's whole text: raw lines, then the exception, in its wrapper when it was in graph capture."""
    out = "".join(f"{line}\n" for line in error.before)
    if error.exception:
        out += _logged(error, phase)
    return fill(out, facts, rank, tp_size, pid)


def parent_text(error: EngineError) -> str:
    """What the parent prints when it fails before anything has started: no time, no rank."""
    out = "".join(f"{line}\n" for line in error.before)
    if error.exception:
        frames = _stack(_FRAMES["parent"])
        out += f"Traceback (most recent call last):\n{frames}{error.exception}: {error.message}\n"
    return fill(out, {}, 0, 1, os.getpid())


def _logged(error: EngineError, phase: str) -> str:
    message = error.message + "\n"
    if error.symbol:
        message += (_SEARCH.format(symbol=error.symbol) if error.torch == "new" else "") + _TORCH_TAIL
    capture = phase == "graph_capture"
    frames = _FRAMES[error.frames or (phase if capture else "init" if _starting(phase) else "serving")]
    text = "[{time}{tp}] Scheduler hit an exception: Traceback (most recent call last):\n"
    text += f"{_stack(frames)}{error.exception}: {message}\n"
    if capture and error.wrapped:
        # The wrapper prints the inner error's first line and then its remedies, whatever the cause is.
        text += (
            "\nDuring handling of the above exception, another exception occurred:\n\n"
            f"Traceback (most recent call last):\n{_stack(frames[:1])}"
            f"Exception: Capture cuda graph failed: {message}{_SOLUTIONS}\n"
        )
    return text


def _starting(phase: str) -> bool:
    return phase in ("dist_init", "weights", "kv_pool")


def _stack(frames: tuple[_Frame, ...]) -> str:
    return "".join(f'  File "{path}", line {number}, in {name}\n' for path, number, name in frames)
