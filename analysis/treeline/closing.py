"""Closing a sweep: how a run of the playbook ended, and whether its exit code may be zero."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from treeline import memory
from treeline import plan as planner
from treeline.claiming import spend_of
from treeline.outcomes import host_states
from treeline.plan import History
from treeline.records import Controller, HostState, Outcome, Run, Started, Sweep, utc_now
from treeline.store import StoreError, SweepStore, TrialLog


@dataclass(frozen=True)
class Closed:
    """How a run ended. Any ``failures`` are to end the playbook with a non-zero exit code."""

    outcome: Outcome
    finished: bool
    message: str
    failures: tuple[str, ...]
    states: dict[str, int]


def close_sweep(
    store: SweepStore,
    me: Controller,
    hosts: Mapping[str, Mapping[str, Any]],
    *,
    fail_on_bad: bool,
    forecast_s: float | None = None,
) -> Closed:
    """Write down how this run ended.

    Args:
        hosts: per host what ``treeline.outcomes.host_outcome`` returns; all but ``restored`` may be missing.
        fail_on_bad: count every cell that is not good as a failure.
        forecast_s: what one trial is expected to take, as the claims were told: a trial that would have ended
            beyond ``max_hours`` was not begun.

    Raises:
        StoreError: the sweep folder cannot be read or written.
    """
    with store.lock():
        sweep, log = store.read_sweep(), store.read_trials()
        states_of_hosts = _with_debts(host_states(hosts), _run_of(sweep, me))
        histories = {name: _history(log, name, me) for name in log.hardware_classes(sweep)}
        left = {
            name: planner.remaining(sweep.plan, history.past, sweep.known_of(name))
            for name, history in histories.items()
        }
        complete = bool(histories) and not any(
            planner.open_items(sweep.plan, history.past, sweep.known_of(name))
            for name, history in histories.items()
        )
        stops = [stop for h in histories.values() if (stop := planner.stop_reason(h.past)) is not None]
        begun = sum(line.controller == me for line in log.started.values())
        spent = _spent(sweep, log, histories, forecast_s)
        outcome = _outcome(stops, complete, spent, begun, sweep.options.get("max_trials_per_run"))
        states = _states(sweep, histories)
        failures = [
            *_host_failures(states_of_hosts, sum(left.values())),
            *(f"the sweep was stopped: {stop}" for stop in stops),
            *_nothing_learned(histories, hosts),
            *(_left_over(left, histories, hosts) if outcome == "incomplete" else []),
            *(_bad(states) if fail_on_bad else []),
        ]
        message = _message(sweep.sweep_id, outcome, states, sum(left.values()), spent)
        _end_run(sweep, me, outcome, "; ".join(failures) or message, states_of_hosts)
        store.write_sweep(sweep)
    # The memory is the results folder's own; it is only read where a sweep asks for it. This sweep is closed:
    # what is wrong with the memory is said, and fails nothing.
    try:
        memory.remember(store.folder.parent, sweep, log)
    except StoreError as error:
        message += f"; the crash memory was not written: {error}"
    return Closed(outcome, sweep.finished_at is not None, message, tuple(failures), states)


def _history(log: TrialLog, hardware_class: str, me: Controller) -> History:
    def is_mine(line: Started) -> bool:
        return line.controller == me

    return History.of(log, hardware_class, this_run=is_mine, in_flight=lambda line: False)


def _run_of(sweep: Sweep, me: Controller) -> Run | None:
    return next((run for run in reversed(sweep.runs) if run.controller == me), None)


def _with_debts(hosts: Mapping[str, HostState], run: Run | None) -> dict[str, HostState]:
    """The states with what earlier runs owe where this one did not come to a host: it is owed still."""
    debts = (run.hosts if run is not None else None) or {}
    return {
        host: msgspec.structs.replace(debts[host], reason=f"{debts[host].reason}; now: {state.reason}")
        if host in debts and not state.touched
        else state
        for host, state in hosts.items()
    }


def _spent(
    sweep: Sweep, log: TrialLog, histories: Mapping[str, History], forecast_s: float | None
) -> str | None:
    """Why the sweep may spend no more; None where it may, or was never limited."""
    now = utc_now()
    for name, history in histories.items():
        reason = planner.limit_reason(history.past, [], None, spend_of(sweep, log, name, now, forecast_s))
        if reason is not None:
            return reason
    return None


def _outcome(stops: list[str], complete: bool, spent: str | None, begun: int, limit: Any) -> Outcome:
    if stops:
        return "stopped"
    if complete:
        return "complete"
    if spent is not None:
        return "limit"
    return "limit" if isinstance(limit, int) and begun >= limit else "incomplete"


def _states(sweep: Sweep, histories: Mapping[str, History]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name, history in histories.items():
        for cell in planner.cells(sweep.plan, history.past, sweep.known_of(name)).values():
            counts[cell.state] = counts.get(cell.state, 0) + 1
    return counts


def _host_failures(hosts: Mapping[str, HostState], items_left: int) -> list[str]:
    """A host that left early is a failure only where its work was not done by others."""
    failures = []
    for host, state in hosts.items():
        if state.owed:
            why = state.reason or "no reason given"
            failures.append(
                f"{host} is NOT restored: {why}. Run `ansible-playbook restore.yml` with the same inventory "
                "when it answers"
            )
        if state.broke_off and (items_left or state.owed):
            failures.append(f"{host} left the sweep early: {state.broke_off}")
    return failures


def _nothing_learned(histories: Mapping[str, History], hosts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Hosts that went out are no failure as long as some trial, of any run, said something about its cell."""
    everything = [past for history in histories.values() for past in history.past]
    if any(past.effect not in (None, "void", "node") for past in everything):
        return []
    return [f"no host could work{_outs(histories, hosts)}"]


def _left_over(
    left: Mapping[str, int], histories: Mapping[str, History], hosts: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    why = _outs(histories, hosts)
    return [f"{sum(left.values())} items of the plan were not run{why}. Run the same command again to go on"]


def _outs(histories: Mapping[str, History], hosts: Mapping[str, Mapping[str, Any]]) -> str:
    """Which hosts did no more trials, and why, in brackets; empty where none was taken out."""
    outs = [
        f"{host}: {reason}"
        for history in histories.values()
        for host in dict.fromkeys([*(past.host for past in history.past), *hosts])
        if (reason := planner.out_reason(history.past, host)) is not None
    ]
    return f" ({'; '.join(outs)})" if outs else ""


def _bad(states: Mapping[str, int]) -> list[str]:
    bad = {name: number for name, number in states.items() if name in planner.BAD_STATES}
    if not bad:
        return []
    return ["fail_on_bad: " + ", ".join(f"{number} {name}" for name, number in bad.items()) + " cells"]


def _message(sweep_id: str, outcome: Outcome, states: Mapping[str, int], left: int, spent: str | None) -> str:
    told = ", ".join(f"{number} {name}" for name, number in states.items() if name != "open") or "none yet"
    words = f"sweep {sweep_id}: cells: {told}"
    if outcome == "complete":
        return f"{words}; complete"
    if outcome == "limit" and spent is not None:
        return f"{words}; {left} items are left: {spent}"
    if outcome == "limit":
        return f"{words}; {left} items are left for the next run: run the same command again to go on"
    return f"{words}; {left} items are left"


def _end_run(
    sweep: Sweep, me: Controller, outcome: Outcome, reason: str, hosts: dict[str, HostState]
) -> None:
    now = utc_now()
    run = _run_of(sweep, me)
    if run is None:
        run = Run(controller=me, started_at=now)
        sweep.runs.append(run)
    run.ended_at, run.outcome, run.reason, run.hosts = now, outcome, reason, hosts
    sweep.outcome = outcome
    # The same command goes on with a sweep that still owes a host its services: it then only restores.
    owed = any(state.owed for state in hosts.values())
    sweep.finished_at = now if outcome == "complete" and not owed else None
