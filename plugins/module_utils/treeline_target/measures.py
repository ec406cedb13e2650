"""Arithmetic of measurements: acceptance length, latencies, percentiles. Pure, no input or output.

Acceptance length is a ratio of sums over requests, never a mean of ratios: short answers would weigh as much
as long ones. Time per output token leaves out the first token, which belongs to the prompt.
"""

from __future__ import annotations

import math
import statistics
from typing import Iterable, Optional, Sequence

# Student's t for a two-sided 95 % interval, by degrees of freedom 1..30; beyond, the normal distribution's.
_T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
_Z95 = 1.96


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


def effective_concurrency(durations_s: Iterable[float], wall_s: float) -> Optional[float]:
    """Requests in flight on average, by Little's law: sum of durations / wall time. None without time."""
    return sum(durations_s) / wall_s if wall_s > 0 else None


def mean_and_relative_ci(values: Sequence[float]) -> tuple[Optional[float], Optional[float]]:
    """Mean, and half of its 95 % confidence interval (Student) / mean; each None where it cannot be told.

    The interval is that of repeats inside one service life: it says nothing about another life.
    """
    if not values:
        return None, None
    mean = statistics.fmean(values)
    if len(values) < 2 or mean == 0:
        return mean, None
    freedom = len(values) - 1
    t = _T95[freedom - 1] if freedom <= len(_T95) else _Z95
    return mean, t * statistics.stdev(values) / math.sqrt(len(values)) / abs(mean)


def good_requests(
    latencies: Iterable[tuple[Optional[float], Optional[float]]],
    ttft_s: Optional[float],
    tpot_s: Optional[float],
) -> int:
    """How many requests kept an objective: (time to first token, per output token) of each, in seconds.

    A latency that is not known, such as that per token of an answer of one token, breaks nothing; a time to
    first token that is not known keeps no objective for it.
    """
    good = 0
    for first, per_token in latencies:
        late = ttft_s is not None and (first is None or first > ttft_s)
        slow = tpot_s is not None and per_token is not None and per_token > tpot_s
        good += not late and not slow
    return good
