"""A whole load on one service life: canaries, warm-up, every client key, canaries under load; and its end.

Whatever happens, it ends in bounded time and returns what was measured until then: when the unit dies (seen
within two seconds), when the lease is lost, when the engine makes no token for a while, when the total bound
is reached. Nothing of it outlives the unit.
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Awaitable, Callable, Optional

from . import (
    agreement,
    clock,
    garble_pool,
    journal,
    load_canaries,
    load_engine,
    load_life,
    load_looks,
    load_points,
    load_soak,
    load_summary,
    telemetry,
    telemetry_sampler,
)
from .load_client import Client
from .load_errors import NOBODY_THERE
from .load_life import End, Life
from .load_loops import Run, Work
from .load_progress import FileListener, Listener, Progress
from .load_records import Record, RecordFile
from .load_spec import ClientKey, Spec

__all__ = ["Life", "run"]

# An engine's front end closes its connections some time before systemd sees the unit dead.
SETTLE_S = 6.0
MAX_SAMPLES = 3
LOG_S = 10.0


@dataclass
class _Gathered:
    """All that a load has gathered so far; what is cut short keeps it."""

    engine: load_engine.Facts
    answers: list[load_canaries.Answer] = field(default_factory=list)
    outputs: list[agreement.Sample] = field(default_factory=list)
    points: list[dict[str, Any]] = field(default_factory=list)
    spans: list[tuple[float, float]] = field(default_factory=list)
    samples: list[dict[str, Any]] = field(default_factory=list)
    warmup: Optional[Run] = None
    soak: Optional[load_soak.SoakRun] = None
    last: Optional[Record] = None
    tokens: int = 0
    verify_calls: int = 0

    def note(self, records: list[Record]) -> None:
        """Take in what the requests of a run say of the life as a whole."""
        for record in records:
            one = record.exchange
            if one.ended is not None and (
                self.last is None or one.ended >= (self.last.exchange.ended or 0.0)
            ):
                self.last = record
            if one.ok and one.tokens is not None and one.verify_calls is not None:
                self.tokens += one.tokens
                self.verify_calls += one.verify_calls

    def lost_the_server(self) -> bool:
        """Whether the last request that ended failed as if nobody was there."""
        error = self.last.exchange.error if self.last is not None else None
        return error is not None and error.kind in NOBODY_THERE


def run(spec: Spec, life: Life, listener: Optional[Listener] = None) -> dict[str, Any]:
    """Carry out `spec` and return {outcome, msg, canaries, points, soak, engine, requests_file, ...}.

    `outcome` is done, died, preempted, timeout or lease_lost. `listener` is told once a second how far it is;
    without one it is written to `progress.json` beside the records. Raises OSError when the records cannot be
    written, ValueError when the spec cannot be used.
    """
    return asyncio.run(_run(spec.checked(), life, listener))


async def _run(spec: Spec, life: Life, listener: Optional[Listener]) -> dict[str, Any]:
    origin, realtime = clock.monotonic(), clock.realtime_usec()
    load_life.allow_connections(max(key.concurrency for key in spec.client_keys))
    file = RecordFile(Path(spec.out_dir), origin)
    gathered = _Gathered(load_engine.facts({}))
    sampler = telemetry_sampler.Sampler(spec.gpu_query, Path(spec.out_dir) / telemetry.FILE_NAME)
    sampler.start()
    async with Client(
        spec.base_url, spec.limits, spec.api_key, spec.api, spec.stream, spec.retries
    ) as client:
        progress = Progress(
            client, listener or FileListener(Path(spec.out_dir)), len(spec.client_keys) * spec.repeats.high
        )
        load = _Load(Work.of(client, spec), gathered, file, progress, life.unit is not None)
        steps = asyncio.ensure_future(load.carry_out())
        watches = [
            asyncio.ensure_future(load_life.watch(life)),
            asyncio.ensure_future(load_life.watch_tokens(client, spec)),
        ]
        teller = asyncio.ensure_future(progress.watch())
        try:
            await asyncio.wait({steps, *watches}, timeout=spec.total_s, return_when=asyncio.FIRST_COMPLETED)
            seen = [watch for watch in watches if watch.done()]
            if seen:
                end = seen[0].result()
            elif steps.done():
                end = await _settled(life, gathered)
            else:
                end = End("timeout", "the load was not done within %g s" % spec.total_s, reason="bound")
        finally:
            for task in (steps, *watches, teller):
                task.cancel()
            ended = await asyncio.gather(steps, *watches, teller, return_exceptions=True)
            recording = await asyncio.get_running_loop().run_in_executor(None, sampler.stop)
    telemetry.annotate(gathered.points, gathered.spans, recording)
    ended_at = clock.monotonic()
    phase = progress.phase
    progress.enter(end.outcome)
    progress.tell()
    if isinstance(ended[0], Exception):
        raise ended[0]
    log = await _log_accounts(life, gathered, realtime) if end.outcome == "done" else []
    return {
        **_result(spec, gathered, file, end, log),
        "phase": "done" if end.outcome == "done" else phase,
        "load_s": round(ended_at - origin, 3),
        "started_at_realtime_usec": realtime,
        "started_at_monotonic": origin,
        "died_at_monotonic": end.died_at_monotonic,
        "returned_at_monotonic": clock.monotonic(),
    }


@dataclass
class _Load:
    """The steps of a load, in order."""

    work: Work
    gathered: _Gathered
    file: RecordFile
    progress: Progress
    own_life: bool
    """Whether the engine has served nobody else since it started."""

    async def carry_out(self) -> None:
        """Every step; cancelled, it leaves in `gathered` what there was."""
        work, gathered, spec = self.work, self.gathered, self.work.spec
        client = work.client
        gathered.engine = load_engine.facts(await client.server_info())
        client.incremental = gathered.engine.incremental
        client.is_sglang = gathered.engine.known
        client.model = gathered.engine.model
        if not gathered.engine.known:
            client.model = await client.served_model() or client.model
        self.progress.enter("canaries")
        first = load_canaries.SINGLE if spec.canaries_single is None else spec.canaries_single
        await load_canaries.ask_alone(client, spec.canaries, client.model, gathered.answers, first=first)
        warmup = gathered.warmup = Run(spec.client_keys[0], "warmup")
        await self._recorded(warmup, load_points.warm_up(work, warmup))
        await self._points()
        if spec.soak_s:
            gathered.soak = load_soak.prepared(work)
            self.progress.enter("soak", gathered.soak, clock.monotonic() + spec.soak_s)
            await load_soak.soak(work, gathered.soak, self._store_batch)

    async def _points(self) -> None:
        spec, gathered = self.work.spec, self.gathered
        for number in itertools.count(1):
            keys = load_points.round_of(number, spec.client_keys, spec.repeats, gathered.points)
            if not keys:
                return
            for key in keys:
                await self._point(load_points.measured(key, number))
                if number == 1 and key == spec.client_keys[0]:
                    busy = Run(key, "canary_load")
                    await self._recorded(busy, self._canaries_under_load(busy))

    async def _canaries_under_load(self, busy: Run) -> None:
        work, gathered = self.work, self.gathered
        compared = gathered.outputs if work.spec.samples != "none" else None
        margins = work.spec.samples == "margins"
        await load_canaries.ask_busy(work, busy, work.client.model, gathered.answers, compared, margins)

    async def _point(self, point: Run) -> None:
        try:
            await self._recorded(point, load_points.measure(self.work, point))
        finally:
            if point.started:
                self._sum_up(point)
        self.progress.points_done += 1

    def _sum_up(self, point: Run) -> None:
        """Turn a run into its measurement; what only served for that is forgotten."""
        gathered = self.gathered
        gathered.points.append(
            {
                **load_summary.summary(point, gathered.engine, self.work.spec),
                "looks": {
                    **point.looks,
                    "own_life": self.own_life,
                    "life_tokens": gathered.tokens,
                    "life_verify_calls": gathered.verify_calls,
                },
            }
        )
        gathered.spans.append((point.started, point.ended or clock.monotonic()))
        flagged = (
            one for one in point.records if one.garbled is not None and one.garbled.verdict == "flagged"
        )
        for record in itertools.islice(flagged, MAX_SAMPLES - len(gathered.samples)):
            gathered.samples.append(_sample(record))
        point.records.clear()

    async def _recorded(self, run: Run, load: Awaitable[None]) -> None:
        """Carry out one run, then judge its texts and write its records; both also when it is cut short."""
        self.progress.enter(run.phase, run)
        try:
            await load
        finally:
            self.gathered.note(run.records)
            await _off_the_loop(lambda: self._judge_and_write(run))

    def _judge_and_write(self, run: Run) -> None:
        """The outputs of a run are judged together before each is, for then its text is forgotten.

        Empty ones belong to them: an engine that counts tokens and gives no text is broken.
        """
        ended_well = [one for one in run.records if one.exchange.ok]
        unjudged = [one.exchange for one in ended_well if not one.judged]
        texts = [one.text for one in unjudged]
        tokens = sum(one.tokens or 0 for one in unjudged)
        for record in run.records:
            record.judge()
        reports = [one.garbled for one in ended_well if one.garbled is not None]
        if run.phase == load_points.MEASURED:
            run.garble = garble_pool.summarise(texts, reports, tokens or None)
        self.file.append(run.records)

    async def _store_batch(self, records: list[Record]) -> None:
        """Of a soak: without arrivals, and nothing is kept of it."""
        self.gathered.note(records)
        await _off_the_loop(lambda: self.file.append(records, arrivals=0))


async def _off_the_loop(work: Callable[[], None]) -> None:
    """In a thread, so that the unit is watched meanwhile; never interrupted half-way."""
    await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, work))


async def _settled(life: Life, gathered: _Gathered) -> End:
    """The load is through; where its last request found nobody, the unit may be about to be seen dead."""
    patience = SETTLE_S if life.unit is not None and gathered.lost_the_server() else 0.0
    deadline = clock.monotonic() + patience
    while True:
        end = await load_life.check(life)
        if end is not None:
            return end
        if clock.monotonic() >= deadline:
            return End("done", "the load is done")
        await asyncio.sleep(load_life.POLL_S)


async def _log_accounts(life: Life, gathered: _Gathered, since_usec: int) -> list[Optional[dict[str, Any]]]:
    """What the engine's log says of each point and then of the soak; empty where there is no log to read."""
    if life.unit is None or not life.invocation_id:
        return []
    loop = asyncio.get_running_loop()
    try:
        lines = await loop.run_in_executor(None, load_looks.log_lines, life.invocation_id, since_usec, LOG_S)
    except journal.JournalError:
        return []
    soak = gathered.soak
    spans = [*gathered.spans, *([(soak.started, soak.ended)] if soak and soak.ended else [])]
    return [load_looks.log_account(lines, *span) for span in spans]


def _result(
    spec: Spec, gathered: _Gathered, file: RecordFile, end: End, log: list[Optional[dict[str, Any]]]
) -> dict[str, Any]:
    for point, account in zip(gathered.points, log):  # noqa: B905
        point["looks"]["log"] = account
    shares = [one["overrun_share"] for one in gathered.points if one["overrun_share"] is not None]
    seen = {(one["concurrency"], one["context"]) for one in gathered.points}
    warm = gathered.warmup
    soak = gathered.soak
    return {
        "outcome": end.outcome,
        "reason": end.reason,
        "msg": end.msg if soak is None or end.outcome == "done" else _late(end, soak),
        "canaries": [answer.as_dict() for answer in gathered.answers],
        "samples": [sample.as_dict() for sample in gathered.outputs],
        "points": gathered.points,
        "not_measured": [
            _named(key) for key in spec.client_keys if (key.concurrency, key.context) not in seen
        ],
        "convergence": [
            load_points.convergence(key, gathered.points, spec.repeats.target).as_dict()
            for key in spec.client_keys
            if spec.repeats.high > 1
        ],
        "soak": _soak(spec, soak, log[len(gathered.points) :]) if soak is not None else None,
        "warmup": {
            "requests": warm.sent if warm else 0,
            "failed": warm.failed if warm else 0,
        },
        "engine": {
            "name": gathered.engine.name,
            "simulated": gathered.engine.simulated,
            "overrun_share": max(shares) if shares else None,
        },
        "garbled_samples": gathered.samples,
        "requests_file": str(file.path) if file.count else None,
        "requests": file.count,
    }


def _soak(spec: Spec, soak: load_soak.SoakRun, log: list[Optional[dict[str, Any]]]) -> dict[str, Any]:
    return {**load_soak.summary(soak, spec.soak_s), "log": log[0] if log else None}


def _late(end: End, soak: load_soak.SoakRun) -> str:
    """The end in words, with how far the soak had come."""
    lasted = (soak.ended or clock.monotonic()) - soak.started if soak.started else 0.0
    return "after %.0f s of soak: %s" % (lasted, end.msg)


def _named(key: ClientKey) -> dict[str, Any]:
    return {"concurrency": key.concurrency, "context": key.context}


def _sample(record: Record) -> dict[str, Any]:
    """The beginning of a flagged output, for a reader to judge."""
    return {
        **_named(record.key),
        "index": record.index,
        "reasons": list(record.garbled.reasons if record.garbled else ()),
        "text": record.sample,
    }
