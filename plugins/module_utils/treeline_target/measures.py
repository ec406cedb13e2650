"""Arithmetic of measurements: acceptance length, latencies, percentiles. Pure, no input or output.

Acceptance length is a ratio of sums over requests, never a mean of ratios: short answers would weigh as much
as long ones. Time per output token leaves out the first token, which belongs to the prompt.
"""

from __future__ import annotations

import statistics
from typing import Iterable, Optional, Sequence


def acceptance_length(pairs: Iterable[tuple[Optional[int], Optional[int]]]) -> Optional[float]:
    """Sum of completion tokens / sum of verify calls, the bonus token included; >= 1 for a sound engine.

    `pairs` holds (completion tokens, verify calls) of each request; pairs in which either is missing are left
    out. None when no verify call remains (no speculation).
    """
    total_tokens = total_calls = 0
    for tokens, calls in pairs:
        if tokens is None or calls is None:
            continue
        total_tokens += tokens
        total_calls += calls
    return total_tokens / total_calls if total_calls else None


def time_per_output_token_s(e2e_s: float, ttft_s: float, tokens: int) -> Optional[float]:
    """(end to end - time to first token) / (tokens - 1), in seconds; None for fewer than two tokens.

    Speculative decoding sends several tokens in one chunk, so gaps between chunks would say nothing.
    """
    return (e2e_s - ttft_s) / (tokens - 1) if tokens > 1 else None


def percentile(values: Sequence[float], rank: int) -> Optional[float]:
    """The `rank`-th percentile (1..99), linearly interpolated within the sample; None for an empty one."""
    if not values:
        return None
    if len(values) == 1:
        return values[0]
    return statistics.quantiles(values, n=100, method="inclusive")[rank - 1]


def milliseconds(seconds: Optional[float]) -> Optional[float]:
    """Seconds to milliseconds, rounded to a microsecond."""
    return None if seconds is None else round(seconds * 1000, 3)


def share(part: int, whole: int) -> Optional[float]:
    """part / whole, None when there is no whole."""
    return part / whole if whole else None
