"""Wordings of different SGLang, torch, NCCL and driver versions, and harmless lines that look like errors."""

from __future__ import annotations

import pytest
from logs import ARGS, DIED, LOADED, SERVING, STARTED, decode, text
from treeline.signatures import classify_journal

WORDINGS = {
    "cublas_execution_failed": [
        "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx(handle)`",
    ],
    "illegal_address": [
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "RuntimeError: Triton Error [CUDA]: an illegal memory access was encountered",
        "RuntimeError: CUDA driver error: CUDA_ERROR_ILLEGAL_ADDRESS",
        "Failed: Cuda error /w/kernel.cuh:37 'an illegal memory access was encountered'",
        "what():  CUDA error: cudaErrorIllegalAddress",
    ],
    "torch_oom": [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.10 GiB.",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB",
        "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 79.11 GiB total capacity)",
        "RuntimeError: CUDA error: out of memory",
    ],
    "kv_pool_too_small": [
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
        "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.8",
    ],
    "bad_args": [
        "sglang serve: error: unrecognized arguments: --speculative-ddtree-topk 4",
        "launch_server.py: error: ambiguous option: --cuda-graph-max-bs could match two",
        "launch_server.py: error: argument --tp-size: invalid int value: 'eight'",
        "launch_server.py: error: the following arguments are required: --model-path",
    ],
    "config_rejected": [
        "ValueError: DDTREE currently supports only page_size == 1, got 64.",
        "ValueError: --speculative-num-draft-tokens=8 and --speculative-dflash-block-size=16 differ. "
        "For DFLASH they must match.",
        "ValueError: Currently DFLASH speculative decoding does not support dp attention.",
        "ValueError: Unknown speculative algorithm: DDTREE.",
        "ValueError: --max-running-requests must be >= 1, but got 0.",
    ],
    "model_missing": [
        "OSError: We couldn't connect to 'https://huggingface.co' to load the files",
        "OSError: /m does not appear to have a file named config.json.",
        "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name'",
        "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find the requested files",
        "FileNotFoundError: [Errno 2] No such file or directory: '/srv/models/x/config.json'",
    ],
    "port_in_use": [
        "ERROR: [Errno 98] error while attempting to bind on address ('::', 30000): address already in use",
        "OSError: [Errno 98] Address already in use",
        "ValueError: nccl_port at 31234 is not available in 30 seconds.",
        "RuntimeError: Port is already in use. Please choose another one.",
    ],
    "disk_full": ["OSError: [Errno 28] No space left on device"],
    "host_oom": ["OSError: [Errno 12] Cannot allocate memory"],
    "sglang_watchdog": [
        "[2025-08-14 05:28:23 TP3] Watchdog timeout (self.watchdog_timeout=300)",
        "[2026-08-14 05:28:23 TP3] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
    ],
    "nccl_remote": [
        "torch.distributed.DistBackendError: NCCL error in: x.cpp:94, remote process exited or there was a "
        "network error, NCCL version 2.27.3",
    ],
    "graph_capture_failed": [
        "Exception: Capture cuda graph failed: something new",
        "Exception: Capture prefill CUDA graph failed: something new",
    ],
    "device_assert": [
        "RuntimeError: CUDA error: device-side assert triggered",
        "/pytorch/aten/src/ATen/native/cuda/ScatterGatherKernel.cu:144: operator(): block: [1,0,0], "
        "thread: [2,0,0] Assertion `idx_dim >= 0` failed.",
    ],
    "fabric_manager": ["Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized"],
    "driver_mismatch": [
        "RuntimeError: Error 803: system has unsupported display driver / cuda driver combination",
        "RuntimeError: Error 804: forward compatibility was attempted on non supported HW",
    ],
    "nccl_system": ["RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO)"],
    "unknown": ["KeyError: 'model.layers.27'", "RuntimeError: the moon is full"],
}

HARMLESS = [
    "[2026-06-03 09:00:28 TP0] Setup Custom allreduce failed with peer access is not supported. To silence "
    "this warning, specify --disable-custom-all-reduce explicitly.",
    "[2026-06-03 09:00:28 TP0] Memory headroom after graph capture is 14.10 GB; room for 3 more adapters.",
    "[2026-06-05 09:00:00] Watchdog Scheduler initialized.",
    "[2026-06-05 09:00:00 TP0] Scheduler watchdog timeout (self.watchdog_timeout=60, self.soft=True)",
    "[2026-06-03 09:00:08] Ignore import error when loading sglang.srt.models.x: No module named 'einops'",
    "[2026-06-03 09:00:08] Max running requests is reset to 48 for speculative decoding.",
    "[2026-06-03 09:00:08] If you see an OOM problem, set --mem-fraction-static to a smaller value.",
    "[2026-06-03 09:00:08 TP0] DFLASH fused KV initialization failed, falling back: no fused kernel",
]


@pytest.mark.parametrize(
    ("class_", "line"), [(class_, line) for class_, lines in WORDINGS.items() for line in lines]
)
def test_wording(class_: str, line: str) -> None:
    end = tuple(f"systemd: {message}" for message in DIED)
    assert classify_journal(text(f"systemd: {STARTED}", ARGS, line, *end), alive=False).class_ == class_


@pytest.mark.parametrize("line", HARMLESS)
def test_harmless_line(line: str) -> None:
    begin = (f"systemd: {STARTED}", ARGS, *LOADED, *SERVING, line, decode(4.5))
    healthy = classify_journal(text(*begin), alive=True)
    assert (healthy.class_, healthy.secondary) == ("ok", ())
    dead = classify_journal(text(*begin, *(f"systemd: {message}" for message in DIED)), alive=False)
    assert dead.class_ == "unknown"
    assert dead.first_error is not None
    assert "status=9/KILL" in dead.first_error
