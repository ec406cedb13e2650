"""Prometheus metrics under SGLang's names."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_LABELS = ("model_name", "engine_type", "tp_rank", "pp_rank")
_GAUGES = {
    "num_running_reqs": "The number of running requests.",
    "num_queue_reqs": "The number of requests in the waiting queue.",
    "num_used_tokens": "The number of used tokens.",
    "token_usage": "The token usage.",
    "gen_throughput": "The generation throughput (token/s).",
    "spec_accept_length": "The average acceptance length of speculative decoding.",
    "spec_accept_rate": "The average acceptance rate of speculative decoding.",
    "is_cuda_graph": "Whether the last batch used a CUDA graph.",
}
_COUNTERS = {
    "prompt_tokens": "Number of prefill tokens processed.",
    "generation_tokens": "Number of generation tokens processed.",
    "cached_tokens": "Number of cached prompt tokens.",
    "spec_verify_calls": "Number of speculative verify calls, one per request and step.",
    "num_requests": "Number of requests processed.",
}
_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 120, 300)


class Metrics:
    """One registry; ``update`` takes the scheduler's state, ``finished`` one request's times."""

    def __init__(self, model_name: str, speculative: bool) -> None:
        self._registry = CollectorRegistry()
        labels = (model_name, "unified", "0", "0")
        self._gauges = {
            name: Gauge(f"sglang:{name}", text, _LABELS, registry=self._registry).labels(*labels)
            for name, text in _GAUGES.items()
            if speculative or not name.startswith("spec_")
        }
        self._counters = {
            name: Counter(f"sglang:{name}", text, _LABELS, registry=self._registry).labels(*labels)
            for name, text in _COUNTERS.items()
            if speculative or not name.startswith("spec_")
        }
        self._histograms = {
            name: Histogram(
                f"sglang:{name}", text, _LABELS, registry=self._registry, buckets=_SECONDS
            ).labels(*labels)
            for name, text in (
                ("time_to_first_token_seconds", "Histogram of time to first token in seconds."),
                ("inter_token_latency_seconds", "Histogram of inter-token latency in seconds."),
                ("e2e_request_latency_seconds", "Histogram of end-to-end request latency in seconds."),
            )
        }
        self._seen: dict[str, int] = {}

    def update(self, state: dict[str, Any]) -> None:
        """Take the scheduler's state in."""
        gauges = {
            **state["gauges"],
            "num_running_reqs": state["running"],
            "num_queue_reqs": state["waiting"],
            "num_used_tokens": state["tokens"],
        }
        for name, gauge in self._gauges.items():
            if name in gauges:
                gauge.set(gauges[name])
        totals = dict(state["totals"])
        totals["spec_verify_calls"] = totals.pop("verify_calls")
        for name, total in totals.items():
            if name in self._counters:
                self._counters[name].inc(total - self._seen.get(name, 0))
                self._seen[name] = total

    def finished(self, first_token_s: float, total_s: float, tokens: int) -> None:
        """Note one finished request."""
        self._counters["num_requests"].inc()
        self._histograms["time_to_first_token_seconds"].observe(first_token_s)
        self._histograms["e2e_request_latency_seconds"].observe(total_s)
        if tokens > 1:
            self._histograms["inter_token_latency_seconds"].observe((total_s - first_token_s) / (tokens - 1))

    def text(self) -> bytes:
        """The exposition format."""
        return bytes(generate_latest(self._registry))
