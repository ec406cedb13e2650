"""What one run under a client key gave: the fields of a measurement, every one None where there is nothing.

Counts and latencies are over requests that ended well; throughput is over the tokens that arrived in the
window. Latencies are counted from when a request was due. Gaps between chunks (ITL) are given only where each
chunk holds one token: speculation sends several at once.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, Iterable, Optional

from . import acceptance_windows, load_engine, load_window, measures
from .load_loops import Run
from .load_records import Record
from .load_spec import Slo, Spec
from .load_stream import Exchange

RANKS = (50, 90, 99)


@dataclass(frozen=True)
class Latencies:
    """Seconds of one request that ended well; None where it cannot be seen."""

    ttft: Optional[float]
    tpot: Optional[float]
    e2e: Optional[float]

    @classmethod
    def of(cls, record: Record) -> Latencies:
        """By the times at which tokens arrived, counted from when the request was due."""
        one = record.exchange
        if one.last is None or not one.tokens:
            return cls(None, None, None)
        e2e = one.last - record.intended
        if one.first is None:
            return cls(None, None, e2e)
        ttft = one.first - record.intended
        return cls(ttft, measures.time_per_output_token_s(e2e, ttft, one.tokens), e2e)


def summary(run: Run, engine: load_engine.Facts, spec: Spec) -> dict[str, Any]:
    """The measurement of one run; call it before the arrivals are forgotten."""
    exchanges = [record.exchange for record in run.records]
    good_records = [record for record in run.records if record.exchange.ok]
    good = [record.exchange for record in good_records]
    window = _window(run, exchanges)
    duration = (run.ended or time.monotonic()) - run.started
    cached, prompt = total(good, "cached_tokens"), total(good, "prompt_tokens")
    latencies = [Latencies.of(record) for record in good_records]
    return {
        "concurrency": run.key.concurrency,
        "context": run.key.context,
        "repeat": run.repeat,
        "loop": "open" if run.is_open else "closed",
        "rate": spec.rate if run.is_open else None,
        "arrival": spec.arrival if run.is_open else None,
        "api": spec.api,
        "streamed": spec.stream,
        "max_tokens": spec.max_tokens,
        "complete": run.complete,
        **counts(run.records),
        "completion_tokens": total(good, "tokens"),
        **acceptance(good),
        "al_windows": acceptance_windows.of([(one.tick_times, one.tick_tokens) for one in good]),
        "output_tok_s": window.tokens_per_s if window else None,
        "overall_tok_s": _overall(exchanges),
        "window": window.as_dict(run.started) if window else None,
        "duration_s": round(duration, 6),
        **_percentiles(latencies),
        **_gaps(good, engine),
        "late_p99_ms": _rank([one.exchange.sent - one.intended for one in run.records], 99),
        "effective_concurrency": _rounded(
            measures.effective_concurrency(
                [(one.ended or one.sent) - one.sent for one in exchanges], duration
            )
        ),
        "goodput": goodput(latencies, good, len(exchanges), spec.slo, duration),
        "cached_tokens": cached,
        "prompt_tokens": prompt,
        "prompt_tokens_mean": round(prompt / len(good), 1) if prompt is not None and good else None,
        "prefix_cache_share": measures.share(cached, prompt) if cached is not None and prompt else None,
        "prompts_sha256": run.prompts.hexdigest(),
        "prompts_seed": spec.prompts_seed,
        "cache_flushed": run.flushed,
        "server_peak_running": run.server_peak_running,
        "engine": engine.name,
        "simulated": engine.simulated,
        "overrun_share": run.overrun_share,
        "garble": run.garble or garble_counts(run.records),
        "at": run.started_at,
    }


def counts(records: list[Record]) -> dict[str, Any]:
    """How requests ended: each one sent is exactly one of ok, failed and cancelled (in flight)."""
    errors = [one.exchange.error for one in records if one.exchange.error is not None]
    failed = [error for error in errors if error.kind != "cancelled"]
    ok = sum(1 for one in records if one.exchange.ok)
    return {
        "requests": len(records),
        "ok": ok,
        "failed": len(failed),
        "cancelled": len(records) - ok - len(failed),
        "retried": sum(one.exchange.retries for one in records),
        "errors": dict(Counter(error.kind for error in failed)),
        "first_error": failed[0].message if failed else None,
    }


def acceptance(good: list[Exchange]) -> dict[str, Any]:
    """Acceptance length by sums, and the counters behind it."""
    calls, correct = total(good, "verify_calls"), total(good, "correct_drafts")
    proposed = total(good, "proposed_drafts")
    bars: list[int] = []
    for one in good:
        for at, value in enumerate(one.accepted_histogram or ()):
            if at == len(bars):
                bars.append(0)
            bars[at] += value
    return {
        "verify_calls": calls,
        "correct_drafts": correct,
        "proposed_drafts": proposed,
        "accepted_histogram": bars or None,
        "accept_rate": measures.share(correct, proposed) if correct is not None and proposed else None,
        "al": measures.acceptance_length((one.tokens, one.verify_calls) for one in good),
    }


def garble_counts(records: Iterable[Record]) -> dict[str, int]:
    """Verdicts of the garble detector."""
    verdicts = Counter(record.garbled.verdict for record in records if record.garbled is not None)
    return {
        "flagged": verdicts["flagged"],
        "of": verdicts["flagged"] + verdicts["clean"],
        "not_available": verdicts["not available"],
    }


def goodput(
    latencies: list[Latencies], good: list[Exchange], sent: int, slo: Slo, duration_s: float
) -> Optional[dict[str, Any]]:
    """How much of what was asked for came within the objective; None where none is given.

    The share is over all requests that were sent: one that failed kept nothing.
    """
    if not slo.given:
        return None
    ttft = None if slo.ttft_ms is None else slo.ttft_ms / 1000
    tpot = None if slo.tpot_ms is None else slo.tpot_ms / 1000
    kept = [measures.good_requests([(one.ttft, one.tpot)], ttft, tpot) for one in latencies]
    tokens = sum((one.tokens or 0) * is_kept for one, is_kept in zip(good, kept))  # noqa: B905
    return {
        "ttft_ms": slo.ttft_ms,
        "tpot_ms": slo.tpot_ms,
        "good": sum(kept),
        "of": sent,
        "share": measures.share(sum(kept), sent),
        "requests_s": round(sum(kept) / duration_s, 6) if duration_s > 0 else None,
        "tok_s": round(tokens / duration_s, 6) if duration_s > 0 else None,
    }


def total(exchanges: Iterable[Exchange], name: str) -> Optional[int]:
    """Sum of a count over requests that gave it; None where none did."""
    values = [value for value in (getattr(one, name) for one in exchanges) if value is not None]
    return sum(values) if values else None


def _window(run: Run, exchanges: list[Exchange]) -> Optional[load_window.Window]:
    intervals = [(one.sent, one.ended) for one in exchanges if one.ended is not None]
    ticks = (one.ticks for one in exchanges)  # only one of both rules reads them, and once
    if run.is_open:
        return load_window.arrival_span(intervals, [one.intended for one in run.records], ticks)
    return load_window.steady(intervals, ticks)


def _overall(exchanges: list[Exchange]) -> Optional[float]:
    """All tokens / (first send to last token), ramp and drain included: what other tools call throughput."""
    ends = [one.last for one in exchanges if one.last is not None]
    if not ends:
        return None
    span = max(ends) - min(one.sent for one in exchanges)
    tokens = sum(one.tokens or 0 for one in exchanges if one.ok)
    return round(tokens / span, 6) if span > 0 and tokens else None


def _percentiles(latencies: list[Latencies]) -> dict[str, Optional[float]]:
    found = {}
    for name in ("ttft", "tpot", "e2e"):
        values = [value for value in (getattr(one, name) for one in latencies) if value is not None]
        for rank in RANKS:
            found["%s_p%d_ms" % (name, rank)] = _rank(values, rank)
    return found


def _gaps(good: list[Exchange], engine: load_engine.Facts) -> dict[str, Optional[float]]:
    """Gaps between tokens, where every chunk holds one."""
    single = (
        not engine.speculative
        and not any(one.verify_calls for one in good)
        and all(one.tokens == one.chunks == len(one.tick_times) for one in good)
    )
    gaps = [
        later - earlier
        for one in (good if single else ())
        for earlier, later in zip(one.tick_times, one.tick_times[1:])  # noqa: B905
    ]
    return {"itl_p%d_ms" % rank: _rank(gaps, rank) for rank in RANKS}


def _rank(values: list[float], rank: int) -> Optional[float]:
    return measures.milliseconds(measures.percentile(values, rank))


def _rounded(value: Optional[float]) -> Optional[float]:
    return None if value is None else round(value, 4)
