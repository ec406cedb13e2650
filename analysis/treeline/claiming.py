"""Claiming: a host asks for its next item, and the claim is the ``started`` line."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from treeline import plan as planner
from treeline import progress
from treeline.keys import Item, Known
from treeline.plan import Done, History, Out, Stop, Wait
from treeline.records import Controller, Started, Sweep, seconds_between, utc_now
from treeline.store import SweepStore, TrialLog

State = Literal["item", "done", "stop", "out", "wait"]

POLL_S = 0.5
# What a trial may take besides getting ready: twice a load bound of half an hour, evidence, a slow link.
BESIDES_READY_S = 4200.0


@dataclass(frozen=True)
class Claim:
    """The answer to one host: what it does next, or why nothing. ``message`` is for people."""

    state: State
    reason: str
    message: str
    item: Item | None = None
    trial_id: str = ""
    k: int = 0
    n: int = 0
    torn: str = ""


@dataclass(frozen=True)
class Asker:
    """Who asks.

    ``trial_bound_s``: a claim of another host that is older than this and has no verdict counts as given up,
    or its host would be waited for for ever; None derives it from the sweep's ``ready_timeout``.
    """

    host: str
    hardware_class: str
    controller: Controller
    trial_bound_s: float | None = None
    forecast_s: float | None = None


def claim(store: SweepStore, asker: Asker) -> Claim:
    """Ask once, and write the claim down where there is an item.

    Raises:
        StoreError: the sweep folder cannot be read or written; nothing was claimed then.
    """
    with store.lock():
        sweep, log = store.read_sweep(), store.read_trials()
        now = utc_now()
        history = _history(log, sweep, asker, now)
        known = sweep.known_of(asker.hardware_class)
        step = planner.next_step(
            sweep.plan,
            history.past,
            history.in_flight,
            asker.host,
            _limit(sweep, log, asker),
            known=known,
            spend=spend_of(sweep, log, asker.hardware_class, now, asker.forecast_s),
        )
        if not isinstance(step, Item):
            return _nothing(asker.host, step)
        k, n = planner.position(sweep.plan, log, asker.hardware_class, step, known)
        line = Started(
            trial_id=f"{sweep.sweep_id}-{log.next_seq:04d}",
            sweep_id=sweep.sweep_id,
            item_id=step.item_id,
            cell=step.cell,
            purpose=step.purpose,
            ordinal=step.ordinal,
            host=asker.host,
            hardware_class=asker.hardware_class,
            key=step.key,
            at=now,
            seq=log.next_seq,
            reason=step.reason,
            controller=asker.controller,
        )
        torn = store.append_trial(line)
    message = progress.trial_line(
        asker.host, step, k, n, _elapsed(sweep, asker, now), _left(sweep, log, history, asker, known)
    )
    return Claim("item", step.reason, message, step, line.trial_id, k, n, str(torn or ""))


def claim_or_wait(
    store: SweepStore,
    asker: Asker,
    timeout_s: float,
    say: Callable[[str], None],
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Claim:
    """Ask until there is an answer other than "wait", for at most ``timeout_s`` seconds.

    The lock is free between two questions. ``say`` is told once that the host waits.

    Raises:
        StoreError: as ``claim``.
    """
    deadline = clock() + timeout_s
    answer = claim(store, asker)
    if answer.state == "wait":
        say(answer.message)
    while answer.state == "wait" and clock() < deadline:
        pause(min(POLL_S, max(deadline - clock(), 0.0)))
        answer = claim(store, asker)
    return answer


def lost(host: str) -> Claim:
    """The answer to a host that did not come back after its last trial."""
    reason = "it was unreachable after its last trial"
    return Claim("out", reason, f"[{host}] does no more trials in this run: {reason}")


def _history(log: TrialLog, sweep: Sweep, asker: Asker, now: str) -> History:
    bound = asker.trial_bound_s
    if bound is None:
        ready = sweep.options.get("ready_timeout")
        bound = (float(ready) if isinstance(ready, int | float) else 0.0) + BESIDES_READY_S

    def is_mine(line: Started) -> bool:
        return line.controller == asker.controller

    def is_flying(line: Started) -> bool:
        # A host that asks has nothing in flight: whatever it claimed before was given up.
        return is_mine(line) and line.host != asker.host and seconds_between(line.at, now) < bound

    return History.of(log, asker.hardware_class, this_run=is_mine, in_flight=is_flying)


def _nothing(host: str, step: Done | Out | Stop | Wait) -> Claim:
    if isinstance(step, Done):
        return Claim("done", step.reason, f"[{host}] is done: {step.reason}")
    if isinstance(step, Out):
        return Claim("out", step.reason, f"[{host}] does no more trials in this run: {step.reason}")
    if isinstance(step, Stop):
        return Claim("stop", step.reason, f"[{host}] The sweep stops: {step.reason}")
    return Claim("wait", step.reason, f"[{host}] waits: {step.reason}")


def _limit(sweep: Sweep, log: TrialLog, asker: Asker) -> int | None:
    """Trials that this run may start in the asking host's hardware class; the other classes' count too."""
    limit = sweep.options.get("max_trials_per_run")
    if not isinstance(limit, int) or limit <= 0:
        return None
    mine = (line for line in log.started.values() if line.controller == asker.controller)
    return max(limit - sum(line.hardware_class != asker.hardware_class for line in mine), 0)


def spend_of(
    sweep: Sweep, log: TrialLog, hardware_class: str, now: str, trial_s: float | None = None
) -> planner.Spend:
    """What the sweep may spend and has spent, as one hardware class sees it."""
    restarts, hours = sweep.options.get("max_restarts"), sweep.options.get("max_hours")
    return planner.Spend(
        max_restarts=restarts if isinstance(restarts, int) else None,
        max_hours=float(hours) if isinstance(hours, int | float) else None,
        elsewhere=sum(line.hardware_class != hardware_class for line in log.started.values()),
        hours=planner.hours_at_work(sweep.runs, log.lines, now),
        trial_hours=(trial_s or 0.0) / 3600,
    )


def _elapsed(sweep: Sweep, asker: Asker, now: str) -> float:
    began = next((run.started_at for run in reversed(sweep.runs) if run.controller == asker.controller), now)
    return max(seconds_between(began, now), 0.0)


def _left(sweep: Sweep, log: TrialLog, history: History, asker: Asker, known: Known) -> float | None:
    hosts = {flight.host for flight in history.in_flight} | {asker.host}
    remaining = planner.remaining(sweep.plan, history.past, known)
    finished = [line for line in log.finished.values() if line.hardware_class == asker.hardware_class]
    return progress.time_left(finished, remaining, len(hosts), asker.forecast_s)
