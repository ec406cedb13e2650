"""Prometheus metrics under SGLang's names."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from .server_args import ServerArgs

_LABELS = ("model_name", "engine_type", "tp_rank", "pp_rank")
_DP_LABEL = "dp_rank"
_GAUGES = {
    "num_running_reqs": "The number of running requests.",
    "num_queue_reqs": "The number of requests in the waiting queue.",
    "num_used_tokens": "The number of used tokens.",
    "token_usage": "The token usage.",
    "gen_throughput": "The generation throughput (token/s).",
    "spec_accept_length": "The average acceptance length of speculative decoding.",
    "spec_accept_rate": "The average acceptance rate of speculative decoding.",
    "is_cuda_graph": "Whether the last batch used a CUDA graph.",
    "cache_hit_rate": "The prefix cache hit rate.",
    "max_running_requests": "The largest number of running requests.",
    "spec_num_draft_tokens": "The number of draft tokens of a verify step.",
    "spec_num_steps": "The number of draft steps.",
}
_COUNTERS = {
    "prompt_tokens": "Number of prefill tokens processed.",
    "generation_tokens": "Number of generation tokens processed.",
    "cached_tokens": "Number of cached prompt tokens.",
    "spec_verify_calls": "Number of speculative verify calls, one per request and step.",
    "cuda_graph_passes": "Number of forward passes that replayed a CUDA graph.",
    "num_retracted_requests": "Number of retracted requests.",
}
_REQUESTS = ("num_requests", "Number of requests processed.")
_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 120, 300)


class Metrics:
    """One registry; ``update`` takes the scheduler's state, ``finished`` one request's times.

    With several data-parallel ranks gauges and counters carry a label for the rank.
    """

    def __init__(self, args: ServerArgs) -> None:
        self._registry = CollectorRegistry()
        values = (args["served_model_name"], "unified", "0", "0")
        several = args.dp_size > 1
        labels = (*_LABELS, _DP_LABEL) if several else _LABELS
        ranks = [(*values, str(rank)) for rank in range(args.dp_size)] if several else [values]
        shown = [name for name in (*_GAUGES, *_COUNTERS) if args.speculative or not name.startswith("spec_")]
        self._gauges = {
            name: [gauge.labels(*rank) for rank in ranks]
            for name, text in _GAUGES.items()
            if name in shown
            for gauge in [Gauge(f"sglang:{name}", text, labels, registry=self._registry)]
        }
        self._counters = {
            name: [counter.labels(*rank) for rank in ranks]
            for name, text in _COUNTERS.items()
            if name in shown
            for counter in [Counter(f"sglang:{name}", text, labels, registry=self._registry)]
        }
        self._requests = Counter(
            f"sglang:{_REQUESTS[0]}", _REQUESTS[1], _LABELS, registry=self._registry
        ).labels(*values)
        self._histograms = {
            name: Histogram(
                f"sglang:{name}", text, _LABELS, registry=self._registry, buckets=_SECONDS
            ).labels(*values)
            for name, text in (
                ("time_to_first_token_seconds", "Histogram of time to first token in seconds."),
                ("inter_token_latency_seconds", "Histogram of inter-token latency in seconds."),
                ("e2e_request_latency_seconds", "Histogram of end-to-end request latency in seconds."),
            )
        }
        self._seen: dict[tuple[str, int], int] = {}
        self._fixed = {
            "max_running_requests": args["max_running_requests"],
            "spec_num_draft_tokens": args.width,
            "spec_num_steps": args.block_size - 1,
        }

    def update(self, state: dict[str, Any]) -> None:
        """Take the scheduler's state in."""
        for rank, lane in enumerate(state["lanes"]):
            totals = lane["totals"]
            gauges = {
                **self._fixed,
                **lane["gauges"],
                "num_running_reqs": lane["running"],
                "num_queue_reqs": lane["waiting"],
                "num_used_tokens": lane["tokens"],
                "cache_hit_rate": totals["cached_tokens"] / max(1, totals["prompt_tokens"]),
            }
            for name, gauge in self._gauges.items():
                if name in gauges:
                    gauge[rank].set(gauges[name])
            for name, counter in self._counters.items():
                total = totals.get(name.removeprefix("spec_"), 0)
                grown = total - self._seen.get((name, rank), 0)
                if grown:
                    counter[rank].inc(grown)
                    self._seen[name, rank] = total

    def finished(self, first_token_s: float, total_s: float, tokens: int) -> None:
        """Note one finished request."""
        self._requests.inc()
        self._histograms["time_to_first_token_seconds"].observe(first_token_s)
        self._histograms["e2e_request_latency_seconds"].observe(total_s)
        if tokens > 1:
            self._histograms["inter_token_latency_seconds"].observe((total_s - first_token_s) / (tokens - 1))

    def text(self) -> bytes:
        """The exposition format."""
        return bytes(generate_latest(self._registry))
