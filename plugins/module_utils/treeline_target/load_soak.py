"""Keep the busiest load up for a while: what dies late, dies here, and slow decline shows.

It may last for hours, so nothing of a request is kept beyond its line in the file and its part in the sums.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Awaitable, Callable, Optional

from . import load_engine, load_summary, measures
from .load_loops import Run, Work, closed_loop
from .load_records import Record

PHASE = "soak"
BATCH = 256
# Seconds that one figure of the course stands for, at least; there are never more figures than this.
BIN_S = 10.0
MAX_BINS = 120
_COUNTED = ("tokens", "verify_calls", "correct_drafts", "cached_tokens", "prompt_tokens")

Store = Callable[[list[Record]], Awaitable[None]]


@dataclass
class SoakRun(Run):
    """A run that hands its records on in batches. `bin_s` is the width of one figure of its course."""

    bin_s: float = BIN_S
    bins: list[int] = field(default_factory=list)
    pending: list[Record] = field(default_factory=list)
    open_records: dict[int, Record] = field(default_factory=dict)
    sums: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    first_error: Optional[str] = None
    times: dict[str, array[float]] = field(
        default_factory=lambda: {name: array("d") for name in ("ttft", "tpot", "e2e")}
    )

    def begin(self, record: Record) -> None:
        """A request is about to be sent."""
        self.open_records[id(record)] = record
        self.sent += 1

    def end(self, record: Record) -> None:
        """It has ended: add it up."""
        self.open_records.pop(id(record), None)
        self.pending.append(record)
        exchange = record.exchange
        self.ended_count += 1
        self.tokens += exchange.tokens or 0
        self.sums["retries"] += exchange.retries
        before = 0
        for at, tokens in exchange.ticks:
            self._count(at, tokens - before)
            before = tokens
        if exchange.error is not None:
            self.failed += exchange.error.kind != "cancelled"
            self.errors[exchange.error.kind] += 1
            if exchange.error.kind != "cancelled":
                self.first_error = self.first_error or exchange.error.message
            return
        self.sums["ok"] += 1
        for name in _COUNTED:
            value = getattr(exchange, name)
            if value is not None:
                self.sums[name] += value
        latencies = load_summary.Latencies.of(record)
        for name, kept in self.times.items():
            seconds = getattr(latencies, name)
            if seconds is not None:
                kept.append(seconds)

    def _count(self, at: float, tokens: int) -> None:
        number = int((at - self.started) / self.bin_s)
        if 0 <= number < 2 * MAX_BINS:
            while len(self.bins) <= number:
                self.bins.append(0)
            self.bins[number] += tokens


def prepared(work: Work) -> SoakRun:
    """An empty soak of the busiest client key."""
    return SoakRun(work.spec.client_keys[0], PHASE, bin_s=max(BIN_S, work.spec.soak_s / MAX_BINS))


async def soak(work: Work, run: SoakRun, store: Store) -> None:
    """Keep the load of the run's key up for the time of the spec, and let its last requests end.

    `store` writes a batch of records; it is called while the load goes on, and once more at the end, also
    when the soak is cut short.
    """
    ends_at = time.monotonic() + work.spec.soak_s
    one_at_a_time = asyncio.Lock()

    async def flush() -> None:
        async with one_at_a_time:
            await _flush(run, store)

    async def write() -> None:
        while True:
            await asyncio.sleep(1.0)
            if len(run.pending) >= BATCH:
                await asyncio.shield(flush())

    writer = asyncio.ensure_future(write())
    try:
        async with load_engine.PeakWatch(work.client) as watch:
            try:
                await closed_loop(
                    work,
                    run,
                    None,
                    work.spec.max_tokens,
                    keep_going=lambda: time.monotonic() < ends_at and not writer.done(),
                )
            finally:
                run.server_peak_running = watch.peak
    finally:
        writer.cancel()
        ended = await asyncio.gather(writer, return_exceptions=True)
        await flush()
    if isinstance(ended[0], Exception):
        raise ended[0]


async def _flush(run: SoakRun, store: Store) -> None:
    batch, run.pending = run.pending, []
    await store(batch)
    for record in batch:
        if record.garbled is not None:
            run.verdicts[record.garbled.verdict] += 1


def summary(run: SoakRun, asked_s: float) -> dict[str, Any]:
    """What the soak gave. `tok_s_course` is the throughput of each `bin_s` seconds that are over.

    `decline` is the throughput of the last third / that of the first third: 1 keeps up.
    """
    duration = (run.ended or time.monotonic()) - run.started if run.started else 0.0
    whole = int(duration / run.bin_s)
    course = [round(tokens / run.bin_s, 2) for tokens in run.bins[:whole]]
    third = len(course) // 3
    early, late = sum(course[:third]), sum(course[-third:]) if third else 0.0
    cancelled = run.errors["cancelled"]
    found = {
        "concurrency": run.key.concurrency,
        "context": run.key.context,
        "asked_s": asked_s,
        "duration_s": round(duration, 3),
        "complete": run.complete and duration >= asked_s,
        "requests": run.sent,
        "ok": run.sums["ok"],
        "failed": run.failed,
        "cancelled": cancelled + len(run.open_records),
        "retried": run.sums["retries"],
        "errors": {kind: count for kind, count in run.errors.items() if kind != "cancelled"},
        "first_error": run.first_error,
        "completion_tokens": run.sums["tokens"],
        "verify_calls": run.sums["verify_calls"] or None,
        "al": measures.share(run.sums["tokens"], run.sums["verify_calls"]),
        "output_tok_s": round(sum(course) / len(course), 4) if course else None,
        "bin_s": run.bin_s,
        "tok_s_course": course,
        "decline": round(late / early, 4) if early else None,
        "prefix_cache_share": measures.share(run.sums["cached_tokens"], run.sums["prompt_tokens"]),
        "server_peak_running": run.server_peak_running,
        "garble": {
            "flagged": run.verdicts["flagged"],
            "of": run.verdicts["flagged"] + run.verdicts["clean"],
            "not_available": run.verdicts["not available"],
        },
        "at": run.started_at,
    }
    for name, kept in run.times.items():
        for rank in load_summary.RANKS:
            found["%s_p%d_ms" % (name, rank)] = measures.milliseconds(measures.percentile(kept, rank))
    return found
