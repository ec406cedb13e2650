"""Run one client key as a closed loop and sum up what it gave."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, Optional

from . import clock, load_engine, load_prompts, load_window, measures
from .load_client import Client
from .load_records import Record
from .load_spec import ClientKey, Spec
from .load_stream import Exchange

WARMUP_TOKENS = 32
# Without it a loop against a closed port would spin.
_PAUSE_AFTER_ERROR_S = 0.2
_MEASURED = "point"


@dataclass
class Run:
    """What happened under one client key; `complete` once all its requests have ended."""

    key: ClientKey
    phase: str
    records: list[Record] = field(default_factory=list)
    started: float = 0.0
    started_at: str = ""
    ended: Optional[float] = None
    complete: bool = False
    server_peak_running: Optional[int] = None
    overrun_share: Optional[float] = None


async def closed_loop(
    client: Client,
    spec: Spec,
    run: Run,
    requests: int,
    max_tokens: int,
    clients: Optional[int] = None,
    keep_going: Callable[[], bool] = lambda: True,
) -> None:
    """Keep `clients` requests in flight until `requests` have been sent or `keep_going` says no.

    `clients` is the concurrency of the run's client key unless given.

    Each request is recorded as it is sent, so that a cancelled run holds its unfinished ones too. After a
    failure that client pauses briefly; failures never end the loop.
    """
    indexes = iter(range(requests))
    prompts = load_prompts.Prompts(spec.prompts, spec.prompts_seed)
    label = "%s/%s" % (run.phase, run.key.label)
    run.started, run.started_at = time.monotonic(), clock.utc_now("milliseconds")

    async def one_client() -> None:
        due = time.monotonic()
        for index in _while(indexes, keep_going):
            prompt = prompts.build(label, index, run.key.context)
            record = Record(run.phase, run.key, index, due, Exchange(sent=time.monotonic()))
            run.records.append(record)
            await client.generate(record.exchange, prompt, max_tokens)
            due = time.monotonic()
            if record.exchange.error is not None:
                await asyncio.sleep(_PAUSE_AFTER_ERROR_S)

    places = min(clients or run.key.concurrency, requests)
    tasks = [asyncio.ensure_future(one_client()) for _ in range(places)]
    try:
        await asyncio.gather(*tasks)
        run.complete = True
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        run.ended = time.monotonic()


def _while(indexes: Iterator[int], keep_going: Callable[[], bool]) -> Iterator[int]:
    while keep_going():
        index = next(indexes, None)
        if index is None:
            return
        yield index


def measured(key: ClientKey) -> Run:
    """An empty run whose requests count as measurements."""
    return Run(key, _MEASURED)


async def warm_up(client: Client, spec: Spec, run: Run) -> None:
    """One round at the highest concurrency, never measured: first requests pay for compilation and caches."""
    await closed_loop(client, spec, run, run.key.concurrency, min(spec.max_tokens, WARMUP_TOKENS))


async def measure(client: Client, spec: Spec, run: Run) -> None:
    """Load one client key to its end and note what the engine says about the time in between."""
    before = load_engine.facts(await client.server_info())
    async with load_engine.PeakWatch(client) as watch:
        try:
            await closed_loop(client, spec, run, spec.requests_for(run.key), spec.max_tokens)
        finally:
            run.server_peak_running = watch.peak
    run.overrun_share = load_engine.overrun_share(before, load_engine.facts(await client.server_info()))


def summary(run: Run, engine: load_engine.Facts) -> dict[str, Any]:
    """The measurement of one client key; every number is None where there is nothing to compute it from.

    Counts and latencies are over requests that ended well; throughput is over the tokens that arrived in the
    window.
    """
    exchanges = [record.exchange for record in run.records]
    good = [exchange for exchange in exchanges if exchange.error is None and exchange.ended is not None]
    failed = [one.error for one in exchanges if one.error is not None and one.error.kind != "cancelled"]
    window = load_window.steady(
        [(one.sent, one.ended) for one in exchanges if one.ended is not None],
        [one.ticks for one in exchanges],
    )
    cached, prompt = _sum(good, "cached_tokens"), _sum(good, "prompt_tokens")
    verdicts = Counter(record.garbled.verdict for record in run.records if record.garbled is not None)
    return {
        "concurrency": run.key.concurrency,
        "context": run.key.context,
        "repeat": 1,
        "complete": run.complete,
        "requests": len(exchanges),
        "failed": len(failed),
        "cancelled": len(exchanges) - len(good) - len(failed),
        "errors": dict(Counter(error.kind for error in failed)),
        "first_error": failed[0].message if failed else None,
        "completion_tokens": _sum(good, "tokens"),
        "verify_calls": _sum(good, "verify_calls"),
        "correct_drafts": _sum(good, "correct_drafts"),
        "al": measures.acceptance_length((one.tokens, one.verify_calls) for one in good),
        "output_tok_s": window.tokens_per_s if window else None,
        "window": window.as_dict(run.started) if window else None,
        "duration_s": round((run.ended or time.monotonic()) - run.started, 6),
        **_latencies(good),
        "cached_tokens": cached,
        "prompt_tokens": prompt,
        "prefix_cache_share": measures.share(cached, prompt) if cached is not None and prompt else None,
        "server_peak_running": run.server_peak_running,
        "engine": engine.name,
        "simulated": engine.simulated,
        "overrun_share": run.overrun_share,
        "garble": {
            "flagged": verdicts["flagged"],
            "of": verdicts["flagged"] + verdicts["clean"],
            "not_available": verdicts["not available"],
        },
        "at": run.started_at,
    }


def _sum(exchanges: list[Exchange], name: str) -> Optional[int]:
    values = [value for value in (getattr(one, name) for one in exchanges) if value is not None]
    return sum(values) if values else None


def _latencies(good: list[Exchange]) -> dict[str, Optional[float]]:
    ttft, tpot, e2e = [], [], []
    for one in good:
        if one.first is None or one.last is None or not one.tokens:
            continue
        ttft.append(one.first - one.sent)
        e2e.append(one.last - one.sent)
        per_token = measures.time_per_output_token_s(e2e[-1], ttft[-1], one.tokens)
        if per_token is not None:
            tpot.append(per_token)
    return {
        "%s_p%d_ms" % (name, rank): measures.milliseconds(measures.percentile(values, rank))
        for name, values in (("ttft", ttft), ("tpot", tpot), ("e2e", e2e))
        for rank in (50, 90, 99)
    }
