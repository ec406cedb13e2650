"""Simulated hardware: step times, start-up times and the memory figures of the log lines."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Milliseconds; the formula stands in profiles/hardware/."""

    weights_ms: float
    speculation_ms: float
    row_ms: float
    eager_floor_ms: float
    eager_extra_ms: float
    prefill_ms: float
    prefill_token_ms: float

    def step_s(self, rows: int, speculative: bool, graph: bool) -> float:
        """Simulated seconds of one decode or verify step over ``rows`` rows."""
        milliseconds = self.weights_ms + (self.speculation_ms if speculative else 0.0) + self.row_ms * rows
        if not graph:
            milliseconds = max(self.eager_floor_ms, milliseconds) + self.eager_extra_ms
        return milliseconds / 1000.0

    def prefill_s(self, tokens: int) -> float:
        """Simulated seconds of a prefill of ``tokens`` new tokens."""
        return (self.prefill_ms + self.prefill_token_ms * tokens) / 1000.0


@dataclass(frozen=True)
class StartupTimes:
    """Seconds per start-up phase at time scale 1."""

    dist_init_s: float
    weights_s: float
    kv_pool_s: float
    draft_weights_s: float
    worker_s: float
    capture_s: float
    ready_s: float


@dataclass(frozen=True)
class Memory:
    """Gigabytes per rank, for the log lines."""

    available_gb: float
    weights_gb: float
    kv_gb: float
    draft_gb: float
    graphs_gb: float
    max_total_num_tokens: int
