"""Keep an engine busy: as a closed loop of clients, or with requests that are due whatever it answers.

A closed loop measures service: a slow answer delays the next request, so its latencies say nothing about open
traffic. In the open loop each request is due at a time that was fixed beforehand, and its latency is counted
from then, also where it had to wait for a place (no coordinated omission).
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, Optional

from . import clock, load_prompts
from .load_client import Client
from .load_records import Record
from .load_spec import ClientKey, Spec
from .load_stream import MAX_TICKS, Exchange

# Without it a loop against a closed port would spin.
_PAUSE_AFTER_ERROR_S = 0.2
# Prompts are built before the first request is sent, unless they are longer than this all together.
_BUILT_BEFORE = 64 * 1024 * 1024
# Texts of answers that are kept until the run is over; beyond that they are judged at once and forgotten.
_TEXT_KEPT = 64 * 1024 * 1024
# Arrivals kept in all requests of a run together.
_TICKS_KEPT = 2_000_000
_MIN_TICKS = 64


@dataclass
class Work:
    """What a load works with: the connection, what was asked for, and its prompts."""

    client: Client
    spec: Spec
    prompts: load_prompts.Prompts

    @classmethod
    def of(cls, client: Client, spec: Spec) -> Work:
        """For a spec. Raises ValueError when its prompts are empty."""
        return cls(client, spec, load_prompts.Prompts(spec.prompts, spec.prompts_seed, spec.questions))


@dataclass
class Run:
    """What happened under one client key; `complete` once all its requests have ended.

    `records` grows as requests are sent, so that a run that is cut short holds its unfinished ones too.
    `asked` is how many requests are to be sent, None where time decides.
    """

    key: ClientKey
    phase: str
    repeat: int = 1
    asked: Optional[int] = None
    records: list[Record] = field(default_factory=list)
    sent: int = 0
    ended_count: int = 0
    failed: int = 0
    tokens: int = 0
    started: float = 0.0
    started_at: str = ""
    ended: Optional[float] = None
    complete: bool = False
    is_open: bool = False
    prompts: load_prompts.PromptsHash = field(default_factory=load_prompts.PromptsHash)
    server_peak_running: Optional[int] = None
    overrun_share: Optional[float] = None
    flushed: Optional[bool] = None
    garble: Optional[dict[str, Any]] = None
    looks: dict[str, Any] = field(default_factory=dict)
    _text_kept: int = 0

    @property
    def label(self) -> str:
        """Names the run in the seeds of its prompts."""
        return "%s/%s/%d" % (self.phase, self.key.label, self.repeat)

    def begin(self, record: Record) -> None:
        """A request is about to be sent."""
        self.records.append(record)
        self.sent += 1

    def end(self, record: Record) -> None:
        """It has ended, well or not."""
        exchange = record.exchange
        self.ended_count += 1
        self.tokens += exchange.tokens or 0
        if exchange.error is not None:
            self.failed += 1
        self._text_kept += len(exchange.text)
        if self._text_kept > _TEXT_KEPT:
            record.judge()


async def closed_loop(
    work: Work,
    run: Run,
    requests: Optional[int],
    max_tokens: int,
    clients: Optional[int] = None,
    keep_going: Callable[[], bool] = lambda: True,
) -> None:
    """Keep `clients` requests in flight until `requests` have been sent or `keep_going` says no.

    `clients` is the concurrency of the run's client key unless given; without `requests` only `keep_going`
    ends it. After a failure that client pauses briefly; failures never end the loop.
    """
    places = clients or run.key.concurrency
    build = _builder(work, run, requests)
    indexes = iter(range(requests)) if requests is not None else _endless()
    run.asked = requests

    async def one_client() -> None:
        while keep_going():
            index = next(indexes, None)
            if index is None:
                return
            error = await _one(work, run, index, build(index), None, max_tokens)
            if error:
                await asyncio.sleep(_PAUSE_AFTER_ERROR_S)

    await _all(run, [one_client() for _ in range(places if requests is None else min(places, requests))])


async def open_loop(work: Work, run: Run, requests: int, max_tokens: int) -> None:
    """Send `requests` requests when they are due, at the rate and arrival of the spec.

    At most as many as the client key's concurrency are in flight; others wait for a place, and are late. The
    times come from the seed: another life is asked at the same ones.
    """
    build = _builder(work, run, requests)
    run.asked, run.is_open = requests, True
    places = asyncio.Semaphore(run.key.concurrency)
    began = time.monotonic()
    due = [began + offset for offset in arrivals(work.spec, run.label, requests)]

    async def one_request(index: int) -> None:
        try:
            await _one(work, run, index, build(index), due[index], max_tokens)
        finally:
            places.release()

    async def dispatch() -> None:
        tasks: set[asyncio.Task[None]] = set()
        try:
            for index in range(requests):
                await asyncio.sleep(max(0.0, due[index] - time.monotonic()))
                await places.acquire()
                task = asyncio.get_running_loop().create_task(one_request(index))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            await asyncio.gather(*tasks)
        finally:
            left = list(tasks)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    await _all(run, [dispatch()])


def arrivals(spec: Spec, label: str, requests: int) -> list[float]:
    """When each request is due, in seconds after the start; the first is due at once."""
    gap = 1.0 / (spec.rate or 1.0)
    if spec.arrival == "constant":
        return [index * gap for index in range(requests)]
    seed = hashlib.sha256(("%s\0%s" % (spec.prompts_seed, label)).encode()).digest()
    chance = random.Random(seed)  # noqa: S311 - times, not secrets
    found, at = [], 0.0
    for _ in range(requests):
        found.append(at)
        at += chance.expovariate(1.0) * gap
    return found


async def _one(work: Work, run: Run, index: int, prompt: str, due: Optional[float], max_tokens: int) -> bool:
    """Carry out one request; whether it failed. Without `due` it is due now."""
    now = time.monotonic()
    exchange = Exchange(sent=now)
    exchange.max_ticks = max(_MIN_TICKS, min(MAX_TICKS, _TICKS_KEPT // (run.asked or _TICKS_KEPT)))
    record = Record(
        run.phase,
        run.key,
        index,
        now if due is None else due,
        exchange,
        run.repeat,
        characters_in=len(prompt),
    )
    run.begin(record)
    try:
        await work.client.generate(exchange, prompt, max_tokens)
    finally:
        run.end(record)
    return exchange.error is not None


async def _all(run: Run, clients: list[Any]) -> None:
    """Run the clients to their end; what is cut short ends them, too."""
    run.started, run.started_at = time.monotonic(), clock.utc_now("milliseconds")
    tasks = [asyncio.ensure_future(client) for client in clients]
    try:
        await asyncio.gather(*tasks)
        run.complete = True
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        run.ended = time.monotonic()


def _builder(work: Work, run: Run, requests: Optional[int]) -> Callable[[int], str]:
    """Gives the prompt of an index; those that are sure to be sent are built beforehand, if memory allows."""
    label, context = run.label, run.key.context
    hashed = run.prompts if requests is not None else None

    def build(index: int) -> str:
        prompt = work.prompts.build(label, index, context)
        if hashed is not None:
            hashed.add(index, prompt)
        return prompt

    if requests is None:
        return build
    length = (context or load_prompts.USUAL_CONTEXT) * work.prompts.characters_per_token
    if requests * length > _BUILT_BEFORE:
        return build
    built = [build(index) for index in range(requests)]
    return built.__getitem__


def _endless() -> Iterator[int]:
    index = 0
    while True:
        yield index
        index += 1
