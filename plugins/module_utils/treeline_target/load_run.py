"""A whole load on one service life: canaries, warm-up, every client key, canaries under load; and its end.

Whatever happens, it ends in bounded time and returns what was measured until then: when the unit dies (seen
within two seconds), when the lease is lost, when the total bound is reached. Nothing of it outlives the unit.
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Optional, Sequence

from . import clock, load_canaries, load_engine, load_points, ready, systemd, unitwatch
from .load_client import NOBODY_THERE, Client
from .load_records import Record, RecordFile
from .load_spec import ClientKey, Spec

POLL_S = 0.5
# An engine's front end closes its connections some time before systemd sees the unit dead.
SETTLE_S = 6.0
MAX_SAMPLES = 3
_SAMPLE = 200


@dataclass(frozen=True)
class Life:
    """The service life under load. Without `unit` nothing is watched.

    `look` asks systemd about the unit; `lease_lost` says why the lease is gone, None while it is held.
    """

    unit: Optional[str] = None
    invocation_id: str = ""
    found_units: Sequence[str] = ()
    look: Callable[[str], unitwatch.UnitState] = unitwatch.read_state
    lease_lost: Callable[[], Optional[str]] = lambda: None


@dataclass(frozen=True)
class _End:
    """Why a load ended before it was done."""

    outcome: str
    msg: str
    died_at_monotonic: Optional[float] = None


@dataclass
class _Progress:
    """All that a load has gathered so far; what is cut short keeps it."""

    engine: load_engine.Facts
    answers: list[load_canaries.Answer] = field(default_factory=list)
    runs: list[load_points.Run] = field(default_factory=list)
    points: list[load_points.Run] = field(default_factory=list)


def run(spec: Spec, life: Life) -> dict[str, Any]:
    """Carry out `spec` and return {outcome, msg, canaries, points, engine, requests_file, ...}.

    `outcome` is done, died, preempted, timeout or lease_lost. Raises OSError when the records cannot be
    written, ValueError when the prompts are empty.
    """
    return asyncio.run(_run(spec, life))


async def _run(spec: Spec, life: Life) -> dict[str, Any]:
    origin, realtime = clock.monotonic(), clock.realtime_usec()
    file = RecordFile(Path(spec.out_dir), origin)
    progress = _Progress(load_engine.facts({}))
    async with Client(spec.base_url, spec.limits, spec.api_key) as client:
        steps = asyncio.ensure_future(_steps(client, spec, progress, file))
        watch = asyncio.ensure_future(_watch(life))
        try:
            await asyncio.wait(
                {steps, watch}, timeout=spec.limits.total_s, return_when=asyncio.FIRST_COMPLETED
            )
            if not steps.done() and not watch.done():
                end = _End("timeout", "the load was not done within %g s" % spec.limits.total_s)
            else:
                end = watch.result() if watch.done() else await _settled(life, progress)
        finally:
            steps.cancel()
            watch.cancel()
            ended = await asyncio.gather(steps, watch, return_exceptions=True)
    ended_at = clock.monotonic()
    problem = ended[0]
    if isinstance(problem, Exception):
        raise problem
    return _result(spec, progress, file, end, origin, realtime, ended_at)


async def _steps(client: Client, spec: Spec, progress: _Progress, file: RecordFile) -> None:
    progress.engine = load_engine.facts(await client.server_info())
    client.incremental = progress.engine.incremental
    model = progress.engine.model
    busiest = spec.client_keys[0]
    await load_canaries.ask_alone(client, spec.canaries, model, progress.answers)
    await _recorded(
        load_points.Run(busiest, "warmup"), progress, file, lambda run: load_points.warm_up(client, spec, run)
    )
    for key in spec.client_keys:
        point = load_points.measured(key)
        progress.points.append(point)
        await _recorded(point, progress, file, lambda run: load_points.measure(client, spec, run))
        if key == busiest:
            await _recorded(
                load_points.Run(key, "canary_load"),
                progress,
                file,
                lambda run: load_canaries.ask_busy(client, spec, run, model, progress.answers),
            )


async def _recorded(
    run: load_points.Run, progress: _Progress, file: RecordFile, load: Callable[[load_points.Run], Any]
) -> None:
    """Carry out one run, then judge its texts and write its records; both also when it is cut short."""
    progress.runs.append(run)
    try:
        await load(run)
    finally:
        await _store(run.records, file)


async def _store(records: list[Record], file: RecordFile) -> None:
    """Off the loop, so that the unit is watched meanwhile; never interrupted half-way."""
    loop = asyncio.get_running_loop()

    def work() -> None:
        for record in records:
            record.judge()
        file.append(records)

    await asyncio.shield(loop.run_in_executor(None, work))


async def _watch(life: Life) -> _End:
    """Return when the life is over or the lease is lost; runs for ever otherwise."""
    while True:
        end = await _check(life)
        if end is not None:
            return end
        await asyncio.sleep(POLL_S)


async def _check(life: Life) -> Optional[_End]:
    lost = life.lease_lost()
    if lost is not None:
        return _End("lease_lost", lost)
    if life.unit is None:
        return None
    return await asyncio.get_running_loop().run_in_executor(None, _look, life, life.unit)


def _look(life: Life, unit: str) -> Optional[_End]:
    try:
        state = life.look(unit)
    except systemd.CommandError:
        return None  # systemd is busy; the engine itself is being measured meanwhile
    why = unitwatch.why_over(state, life.invocation_id)
    if why is None:
        return None
    ours = state.invocation_id == life.invocation_id
    died_at = state.inactive_enter_monotonic if ours else ready.last_word(life.invocation_id)
    try:
        other = unitwatch.running_unit(life.found_units)
    except systemd.CommandError:
        other = None
    if other is not None:
        return _End("preempted", "%s became active while the load ran: %s" % (other, why), died_at)
    return _End("died", "%s died while the load ran: %s" % (unit, why), died_at)


async def _settled(life: Life, progress: _Progress) -> _End:
    """The load is through; where its last request found nobody, the unit may be about to be seen dead."""
    patience = SETTLE_S if life.unit is not None and _lost_the_server(progress) else 0.0
    deadline = clock.monotonic() + patience
    while True:
        end = await _check(life)
        if end is not None:
            return end
        if clock.monotonic() >= deadline:
            return _End("done", "the load is done")
        await asyncio.sleep(POLL_S)


def _lost_the_server(progress: _Progress) -> bool:
    """Whether the last request that ended failed as if nobody was there."""
    ended = [one.exchange for run in progress.runs for one in run.records if one.exchange.ended is not None]
    last = max(ended, key=lambda exchange: exchange.ended or 0.0, default=None)
    return last is not None and last.error is not None and last.error.kind in NOBODY_THERE


def _result(
    spec: Spec,
    progress: _Progress,
    file: RecordFile,
    end: _End,
    origin: float,
    realtime: int,
    ended_at: float,
) -> dict[str, Any]:
    points = [load_points.summary(point, progress.engine) for point in progress.points]
    shares = [point.overrun_share for point in progress.points if point.overrun_share is not None]
    warm = next((run for run in progress.runs if run.phase == "warmup"), None)
    return {
        "outcome": end.outcome,
        "msg": end.msg,
        "canaries": [answer.as_dict() for answer in progress.answers],
        "points": points,
        "not_measured": [_named(key) for key in spec.client_keys[len(points) :]],
        "warmup": {
            "requests": len(warm.records) if warm else 0,
            "failed": sum(1 for one in warm.records if one.exchange.error) if warm else 0,
        },
        "engine": {
            "name": progress.engine.name,
            "simulated": progress.engine.simulated,
            "overrun_share": max(shares) if shares else None,
        },
        "garbled_samples": _samples(progress),
        "requests_file": str(file.path) if file.count else None,
        "requests": file.count,
        "load_s": round(ended_at - origin, 3),
        "started_at_realtime_usec": realtime,
        "started_at_monotonic": origin,
        "died_at_monotonic": end.died_at_monotonic,
        "returned_at_monotonic": clock.monotonic(),
    }


def _named(key: ClientKey) -> dict[str, Any]:
    return {"concurrency": key.concurrency, "context": key.context}


def _samples(progress: _Progress) -> list[dict[str, Any]]:
    """The beginnings of at most three flagged outputs, for a reader to judge."""
    flagged = (
        record
        for point in progress.points
        for record in point.records
        if record.garbled is not None and record.garbled.verdict == "flagged"
    )
    return [
        {
            **_named(record.key),
            "index": record.index,
            "reasons": list(record.garbled.reasons if record.garbled else ()),
            "text": record.exchange.text[:_SAMPLE],
        }
        for record in itertools.islice(flagged, MAX_SAMPLES)
    ]
