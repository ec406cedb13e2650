"""How an engine dies: the lines that SGLang 0.5.23 prints for an error in a scheduler process.

Strings that the software prints are kept; frame paths and line numbers are this engine's own invention, so no
line numbers here say anything about a real file.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

from .logs import DATE_FORMAT

_SITE = "/opt/sglang/lib/python3.12/site-packages/sglang/srt"
_CAPTURE_FRAMES = (
    (f"{_SITE}/managers/scheduler.py", 4211, "run_scheduler_process"),
    (f"{_SITE}/model_executor/model_runner_components/cuda_graph_setup.py", 764, "capture_decode_graph"),
    (f"{_SITE}/model_executor/runner/decode_cuda_graph_runner.py", 571, "__init__"),
    (f"{_SITE}/model_executor/runner/decode_cuda_graph_runner.py", 1388, "capture_one_batch_size"),
)
_SERVING_FRAMES = (
    (f"{_SITE}/managers/scheduler.py", 4219, "run_scheduler_process"),
    (f"{_SITE}/managers/scheduler.py", 1507, "event_loop_normal"),
    (f"{_SITE}/managers/scheduler.py", 2790, "run_batch"),
    (f"{_SITE}/speculative/ddtree_worker.py", 388, "verify"),
)
_TORCH_TAIL = (
    "Search for `{symbol}' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for "
    "more information.\n"
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below "
    "might be incorrect.\n"
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
)
_GEMM = (
    "cublasGemmStridedBatchedEx(handle, opa, opb, (int)m, (int)n, (int)k, (void*)&falpha, a, CUDA_R_16BF, "
    "(int)lda, stridea, b, CUDA_R_16BF, (int)ldb, strideb, (void*)&fbeta, c, CUDA_R_16BF, (int)ldc, stridec, "
    "(int)num_batches, compute_type, CUBLAS_GEMM_DEFAULT_TENSOR_OP)"
)
_SOLUTIONS = (
    "Possible solutions:\n"
    "1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n"
    "2. set --cuda-graph-max-bs-decode to a smaller value (e.g., 16)\n"
    "3. disable decode CUDA graph by --cuda-graph-backend-decode=disabled. (Not recommended. Huge "
    "performance loss)\n"
    "Open an issue on GitHub https://github.com/sgl-project/sglang/issues/new/choose \n"
)
# kind -> (exception type, message)
_ERRORS = {
    "cublas_execution_failed": (
        "RuntimeError",
        f"CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `{_GEMM}`",
    ),
    "illegal_address": (
        "torch.AcceleratorError",
        "CUDA error: an illegal memory access was encountered\n"
        + _TORCH_TAIL.format(symbol="cudaErrorIllegalAddress"),
    ),
    "torch_oom": (
        "torch.OutOfMemoryError",
        "CUDA out of memory. Tried to allocate 2.12 GiB. GPU {rank} has a total capacity of 267.69 GiB of "
        "which 1.03 GiB is free. Including non-PyTorch memory, this process has 266.55 GiB memory in use.",
    ),
}


def traceback_text(kind: str, phase: str, rank: int) -> str:
    """One rank's whole exception text, wrapper included when it happened in graph capture."""
    exception, message = _ERRORS[kind]
    message = message.replace("{rank}", str(rank))
    capture = phase == "graph_capture"
    frames = _CAPTURE_FRAMES if capture else _SERVING_FRAMES
    lines = "".join(f'  File "{path}", line {number}, in {name}\n' for path, number, name in frames)
    text = f"Scheduler hit an exception: Traceback (most recent call last):\n{lines}{exception}: {message}\n"
    if capture:
        outer = (
            f'  File "{_CAPTURE_FRAMES[0][0]}", line {_CAPTURE_FRAMES[0][1]}, in {_CAPTURE_FRAMES[0][2]}\n'
        )
        text += (
            "\nDuring handling of the above exception, another exception occurred:\n\n"
            f"Traceback (most recent call last):\n{outer}"
            f"Exception: Capture cuda graph failed: {message}\n{_SOLUTIONS}"
        )
    return text + "\n"


def print_from_ranks(kind: str, phase: str, ranks: Sequence[int], tp_size: int) -> None:
    """Print the exception of each rank, first first.

    Rank 0 is this process. The other ranks are processes of their own for as long as they print: a journal
    tells ranks apart by their process id, as it does with real ones.
    """
    present = [rank for rank in ranks if rank < tp_size] or [0]
    for rank in present:
        prefix = f" TP{rank}" if tp_size > 1 else ""
        text = f"[{time.strftime(DATE_FORMAT)}{prefix}] {traceback_text(kind, phase, rank)}"
        if rank == 0:
            _write(text)
        else:
            _in_other_process(partial(_write, text))


def _write(text: str) -> None:
    sys.stderr.flush()
    data = text.encode()
    while data:
        data = data[os.write(2, data) :]


def _in_other_process(action: Callable[[], None]) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            action()
        finally:
            os._exit(1)
    os.waitpid(pid, 0)
