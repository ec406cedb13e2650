"""Resolved server arguments: what the flags come to, as /server_info shows them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .kernel_lines import VARIABLE as KERNEL_LOG_VARIABLE

DEFAULT_BLOCK_SIZE = 8
_SPECULATIVE_MAXREQ = 48
_PLAIN_MAXREQ = 256
_GRAPH_MAX_BS = 512


@dataclass
class ServerArgs:
    """``values`` are the flags (underscored names, resolved); the rest is derived from them."""

    values: dict[str, Any]
    warnings: list[str] = field(default_factory=list)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def speculative(self) -> bool:
        return self.values["speculative_algorithm"] is not None

    @property
    def budget(self) -> int:
        """Draft nodes per step; 0 without speculation."""
        if not self.speculative:
            return 0
        if self.values["speculative_algorithm"] == "DFLASH":
            return self.block_size - 1
        return int(self.values["speculative_ddtree_budget"])

    @property
    def topk(self) -> int:
        """Candidates per position."""
        if self.values["speculative_algorithm"] == "DFLASH":
            return 1
        return int(self.values["speculative_ddtree_topk"] or 1)

    @property
    def block_size(self) -> int:
        return int(self.values["speculative_num_draft_tokens"] or DEFAULT_BLOCK_SIZE)

    @property
    def width(self) -> int:
        """Rows per request in the verify step."""
        return self.budget + 1

    @property
    def dp_size(self) -> int:
        """Data-parallel ranks."""
        return int(self.values["dp_size"])

    @property
    def graphs(self) -> bool:
        return not (
            self.values["disable_cuda_graph"]
            or self.values["disable_decode_cuda_graph"]
            or self.values["cuda_graph_backend_decode"] == "disabled"
        )

    @property
    def capture_sizes(self) -> list[int]:
        """Batch sizes captured as graphs, ascending; empty when eager."""
        if not self.graphs:
            return []
        maxreq = int(self.values["max_running_requests"])
        largest = min(int(self.values["cuda_graph_max_bs_decode"]), maxreq)
        asked: Sequence[int] = self.values["cuda_graph_bs_decode"] or bucket_list(largest)
        return sorted({size for size in asked if 1 <= size <= maxreq})

    def line(self) -> str:
        """The log's ``server_args=ServerArgs(...)``; the API key is masked."""
        shown = {**self.values, "api_key": "******" if self.values["api_key"] else None}
        return (
            "server_args=ServerArgs(" + ", ".join(f"{name}={value!r}" for name, value in shown.items()) + ")"
        )


def bucket_list(largest: int) -> list[int]:
    """SGLang 0.5.23's sizes: 1..8, to 32 by 2, 40..64 by 4, 72..256 by 8, then by 16, and the largest."""
    sizes = [
        *range(1, 9),
        *range(10, 33, 2),
        *range(40, 65, 4),
        *range(72, 257, 8),
        *range(272, largest + 1, 16),
        largest,
    ]
    return sorted({size for size in sizes if size <= largest})


def resolve(parsed: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> ServerArgs:
    """Check and complete the flags as SGLang does. Raises ValueError for a rejected combination."""
    values: dict[str, Any] = dict(vars(parsed))
    args = ServerArgs(values)
    values["tokenizer_path"] = values["tokenizer_path"] or values["model_path"]
    values["served_model_name"] = values["served_model_name"] or values["model_path"]
    values["kernel_log"] = values["kernel_log"] or environment.get(KERNEL_LOG_VARIABLE)
    _resolve_speculation(args, environment)
    if values["max_running_requests"] is None:
        values["max_running_requests"] = _SPECULATIVE_MAXREQ if args.speculative else _PLAIN_MAXREQ
        if args.speculative:
            args.warnings.append(
                "Max running requests is reset to 48 for speculative decoding. You can override this by "
                "explicitly setting --max-running-requests."
            )
    for name in ("max_running_requests", "tp_size", "dp_size", "decode_log_interval", "port"):
        _at_least_one(values, name)
    if values["cuda_graph_max_bs_decode"] is None:
        values["cuda_graph_max_bs_decode"] = min(_GRAPH_MAX_BS, values["max_running_requests"])
    _at_least_one(values, "cuda_graph_max_bs_decode")
    for name in ("time_scale", "decode_time_scale"):
        if values[name] < 0:
            raise ValueError(f"--{name.replace('_', '-')} must be >= 0, but got {values[name]}.")
    return args


def _resolve_speculation(args: ServerArgs, environment: Mapping[str, str]) -> None:
    values = args.values
    if values["speculative_algorithm"] is None:
        return
    values["speculative_algorithm"] = values["speculative_algorithm"].upper()
    algorithm = values["speculative_algorithm"]
    if algorithm not in ("DDTREE", "DFLASH"):
        raise ValueError(
            f"Unknown speculative algorithm: {algorithm}. The reference engine has DDTREE and DFLASH."
        )
    drafts, alias = values["speculative_num_draft_tokens"], values["speculative_dflash_block_size"]
    if drafts is not None and alias is not None and drafts != alias:
        raise ValueError(
            f"Both --speculative-num-draft-tokens ({drafts}) and --speculative-dflash-block-size ({alias}) "
            f"are set but they differ. For {algorithm} they must match."
        )
    block_size = drafts or alias or DEFAULT_BLOCK_SIZE
    values["speculative_num_draft_tokens"] = values["speculative_dflash_block_size"] = block_size
    if block_size < 2:
        raise ValueError(
            f"--speculative-num-draft-tokens must be >= 2 for {algorithm}, but got {block_size}."
        )
    if algorithm == "DDTREE":
        if values["speculative_ddtree_budget"] is None:
            values["speculative_ddtree_budget"] = block_size - 1
            args.warnings.append(f"Inferred speculative_ddtree_budget={block_size - 1}")
        _at_least_one(values, "speculative_ddtree_budget")
        if values["speculative_ddtree_topk"] is None:
            values["speculative_ddtree_topk"] = _inferred_topk(values, environment)
        _at_least_one(values, "speculative_ddtree_topk")


def _inferred_topk(values: Mapping[str, Any], environment: Mapping[str, str]) -> int:
    """Without the flag: the budget (as in the paper), or pull request 29907's rule if its variable is set."""
    budget, depth = values["speculative_ddtree_budget"], values["speculative_num_draft_tokens"] - 1
    cap = environment.get("SGLANG_DDTREE_MAX_TOPK")
    if cap is None:
        return int(budget)
    if not cap.isdigit() or int(cap) < 1:
        raise ValueError(f"SGLANG_DDTREE_MAX_TOPK must be a whole number >= 1, but got {cap!r}.")
    return min(max(int(budget) // depth + 1, 2), int(cap))


def _at_least_one(values: Mapping[str, Any], name: str) -> None:
    if values[name] < 1:
        raise ValueError(f"--{name.replace('_', '-')} must be >= 1, but got {values[name]}.")
