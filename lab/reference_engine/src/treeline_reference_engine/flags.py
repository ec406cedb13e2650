"""Command-line flags in SGLang 0.5.23's spelling, as a table.

``INERT`` flags are accepted and shown in /server_info; they change nothing here. Prefixes are allowed, as in
SGLang, so an old spelling such as ``--cuda-graph-max-bs`` is ambiguous and ends with exit status 2 there too.
"""

from __future__ import annotations

import argparse
from typing import Any

# (flag, aliases, type, default, help); type None = a bare flag
Flag = tuple[str, tuple[str, ...], Any, Any, str]

ACTIVE: tuple[Flag, ...] = (
    ("--model-path", ("--model",), str, None, "folder of a model trained by treeline_reference_engine.train"),
    ("--host", (), str, "127.0.0.1", "address to listen on"),
    ("--port", (), int, 30000, "port to listen on"),
    ("--served-model-name", (), str, None, "name in /v1/models (default: the model path)"),
    ("--api-key", (), str, None, "require 'Authorization: Bearer KEY'"),
    ("--log-level", (), str, "info", "logging level"),
    ("--tp-size", ("--tensor-parallel-size",), int, 1, "ranks; they show in fault output only"),
    ("--dp-size", ("--data-parallel-size",), int, 1, "data-parallel ranks; requests go to them in turn"),
    ("--context-length", (), int, None, "longest prompt plus answer, tokens"),
    ("--max-running-requests", (), int, None, "requests in one batch; 48 with speculation when unset"),
    ("--speculative-algorithm", (), str, None, "DDTREE, DFLASH (a chain) or nothing"),
    ("--speculative-draft-model-path", ("--speculative-draft-model",), str, None, "must exist when given"),
    ("--speculative-num-draft-tokens", (), int, None, "block size: deepest draft + 1 (default 8)"),
    ("--speculative-dflash-block-size", (), int, None, "the same under its other name"),
    ("--speculative-ddtree-budget", (), int, None, "draft nodes, root excluded (default: block size - 1)"),
    ("--speculative-ddtree-topk", (), int, None, "candidates per position (default: the budget)"),
    ("--cuda-graph-max-bs-decode", (), int, None, "largest captured batch; capped at max running requests"),
    ("--cuda-graph-bs-decode", (), "ints", None, "captured batch sizes"),
    ("--disable-cuda-graph", (), None, False, "run eagerly"),
    ("--enable-metrics", (), None, False, "serve /metrics"),
    ("--decode-log-interval", (), int, 40, "decode steps between two 'Decode batch' lines"),
    ("--skip-server-warmup", (), None, False, "do not send the warm-up requests"),
    ("--cuda-graph-backend-decode", (), str, None, "'disabled' runs eagerly"),
    ("--disable-decode-cuda-graph", (), None, False, "runs eagerly"),
    ("--disable-radix-cache", (), None, False, "turns the prefix cache off"),
    ("--random-seed", (), int, 42, "seed of sampling at temperature > 0"),
)

INERT: tuple[Flag, ...] = (
    ("--tokenizer-path", (), str, None, ""),
    ("--attention-backend", (), str, None, ""),
    ("--cuda-graph-max-bs-prefill", (), int, None, ""),
    ("--cuda-graph-bs-prefill", (), "ints", None, ""),
    ("--cuda-graph-backend-prefill", (), str, None, ""),
    ("--disable-prefill-cuda-graph", (), None, False, ""),
    ("--disable-cuda-graph-padding", (), None, False, ""),
    ("--disable-overlap-schedule", (), None, False, ""),
    ("--disable-custom-all-reduce", (), None, False, ""),
    ("--mem-fraction-static", (), float, None, ""),
    ("--max-total-tokens", (), int, None, ""),
    ("--max-prefill-tokens", (), int, 16384, ""),
    ("--chunked-prefill-size", (), int, 8192, ""),
    ("--page-size", (), int, 1, ""),
    ("--dtype", (), str, "auto", ""),
    ("--quantization", (), str, None, ""),
    ("--kv-cache-dtype", (), str, "auto", ""),
    ("--load-format", (), str, "auto", ""),
    ("--moe-runner-backend", (), str, "auto", ""),
    ("--schedule-policy", (), str, "fcfs", ""),
    ("--schedule-conservativeness", (), float, 1.0, ""),
    ("--speculative-draft-attention-backend", (), str, None, ""),
    ("--speculative-draft-window-size", (), int, None, ""),
    ("--speculative-num-steps", (), int, None, ""),
    ("--speculative-eagle-topk", (), int, None, ""),
    ("--watchdog-timeout", (), float, 300, ""),
    ("--soft-watchdog-timeout", (), float, None, ""),
    ("--enable-nccl-nvls", (), None, False, ""),
    ("--trust-remote-code", (), None, False, ""),
    ("--reasoning-parser", (), str, None, ""),
    ("--tool-call-parser", (), str, None, ""),
    ("--chat-template", (), str, None, ""),
    ("--stream-interval", (), int, 1, ""),
    ("--pp-size", ("--pipeline-parallel-size",), int, 1, ""),
    ("--ep-size", ("--expert-parallel-size",), int, 1, ""),
    ("--nnodes", (), int, 1, ""),
    ("--node-rank", (), int, 0, ""),
    ("--dist-init-addr", (), str, None, ""),
    ("--crash-dump-folder", (), str, None, ""),
    ("--log-requests", (), None, False, ""),
    ("--device", (), str, "cuda", ""),
)

OWN: tuple[Flag, ...] = (
    ("--fault-profile", (), str, "none", "name of a packaged profile, or the path of a YAML or JSON file"),
    ("--time-scale", (), float, 1.0, "factor on the simulated start-up times (0.01 = about 4 s)"),
    ("--decode-time-scale", (), float, 1.0, "factor on the simulated step times"),
    ("--kernel-log", (), str, None, "file that stands in for the kernel's log; a profile's lines go there"),
    (
        "--refuse-logprob",
        (),
        None,
        False,
        "answer return_logprob with 400 under DDTREE, as pull request 29907 does",
    ),
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Declare every flag on ``parser``."""
    for title, table in (
        ("engine", ACTIVE),
        ("accepted, shown in /server_info, without effect", INERT),
        ("own", OWN),
    ):
        group = parser.add_argument_group(title)
        for flag, aliases, kind, default, text in table:
            if kind is None:
                group.add_argument(flag, *aliases, action="store_true", help=text)
            elif kind == "ints":
                group.add_argument(flag, *aliases, type=int, nargs="+", default=default, help=text)
            else:
                group.add_argument(flag, *aliases, type=kind, default=default, help=text)
