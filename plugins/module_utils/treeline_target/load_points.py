"""Measure client keys inside one service life: warm-up, points, and when they have been repeated enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional, Sequence

from . import load_engine, load_looks, measures
from .load_loops import Run, Work, closed_loop, open_loop
from .load_spec import ClientKey, Repeats

WARMUP_TOKENS = 32
MEASURED = "point"


def measured(key: ClientKey, repeat: int = 1) -> Run:
    """An empty run whose requests count as measurements."""
    return Run(key, MEASURED, repeat)


async def warm_up(work: Work, run: Run) -> None:
    """One round at the highest concurrency, never measured: first requests pay for compilation and caches.

    Where a context was asked for, the prompts of the points are then built with tokens of the length that
    this engine counts.
    """
    await closed_loop(work, run, run.key.concurrency, min(work.spec.max_tokens, WARMUP_TOKENS))
    counted = [one for one in run.records if one.exchange.ok and one.exchange.prompt_tokens]
    work.prompts.calibrate(
        sum(one.characters_in for one in counted), sum(one.exchange.prompt_tokens or 0 for one in counted)
    )


async def measure(work: Work, run: Run) -> None:
    """Load one client key to its end and note what the engine says about the time in between."""
    client, spec = work.client, work.spec
    run.flushed = await client.flush_cache() if spec.flush else None
    before = load_engine.facts(await client.server_info())
    run.looks["metrics_before"] = await load_looks.metrics(client)
    requests = spec.requests_for(run.key)
    async with load_engine.PeakWatch(client) as watch:
        try:
            if spec.rate is None:
                await closed_loop(work, run, requests, spec.max_tokens)
            else:
                await open_loop(work, run, requests, spec.max_tokens)
        finally:
            run.server_peak_running = watch.peak
    run.looks["metrics_after"] = await load_looks.metrics(client)
    info = await client.server_info()
    run.looks["ranks_after"] = load_looks.rank_lengths(info)
    run.overrun_share = load_engine.overrun_share(before, load_engine.facts(info))


@dataclass(frozen=True)
class Convergence:
    """How well the throughput of one client key is known from its repeats in this life."""

    key: ClientKey
    repeats: int
    mean_tok_s: Optional[float]
    relative_ci: Optional[float]
    target: Optional[float]

    @property
    def converged(self) -> Optional[bool]:
        """Whether the target was met; None without one."""
        if self.target is None:
            return None
        return self.relative_ci is not None and self.relative_ci <= self.target

    def as_dict(self) -> dict[str, Any]:
        """For results."""
        return {
            "concurrency": self.key.concurrency,
            "context": self.key.context,
            "repeats": self.repeats,
            "mean_tok_s": None if self.mean_tok_s is None else round(self.mean_tok_s, 6),
            "relative_ci": None if self.relative_ci is None else round(self.relative_ci, 6),
            "target": self.target,
            "converged": self.converged,
        }


def convergence(key: ClientKey, points: Sequence[dict[str, Any]], target: Optional[float]) -> Convergence:
    """From the measurements so far; those that were cut short or lost requests say nothing."""
    values = [
        point["output_tok_s"]
        for point in points
        if (point["concurrency"], point["context"]) == (key.concurrency, key.context)
        and point["complete"]
        and not point["failed"]
        and point["output_tok_s"] is not None
    ]
    mean, relative = measures.mean_and_relative_ci(values)
    return Convergence(key, len(values), mean, relative, target)


def round_of(
    number: int, keys: Sequence[ClientKey], repeats: Repeats, points: Sequence[dict[str, Any]]
) -> list[ClientKey]:
    """The client keys of round `number` (from 1), in order: those that are not yet known well enough.

    All keys are measured once before any is repeated, and every other round runs backwards, so that a slow
    drift of the host falls on all keys alike.
    """
    if number > repeats.high:
        return []
    left = [
        key
        for key in keys
        if number <= repeats.low
        or (repeats.target is None or not convergence(key, points, repeats.target).converged)
    ]
    return left if number % 2 else left[::-1]
