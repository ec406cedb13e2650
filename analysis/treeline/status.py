"""How far a sweep is, in a few lines; light, so that it can be asked often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from treeline import plan as planner
from treeline.controller import liveness
from treeline.live.state import state_of, step_of
from treeline.live.steps import Step, steps_left
from treeline.live.view import far, maps
from treeline.plain import clean
from treeline.plan import History
from treeline.progress import duration
from treeline.records import Run, Started, Sweep, seconds_between, utc_now
from treeline.store import SweepStore, TrialLog

# The map is not cut to a terminal here: it may go to a file.
_WIDTH = 110
_HEIGHT = 400


def status_lines(sweep_dir: Path) -> list[str]:
    """Return what is done, what runs where, what is left, and the map so far. Raises StoreError."""
    store = SweepStore(sweep_dir)
    sweep, log = store.read_sweep(), store.read_trials()
    steps = steps_left(sweep_dir)
    size = sum(1 for _ in sweep.plan.restart_keys())
    lines = [
        f"sweep {sweep.sweep_id}: {sweep.plan.kind} of {size} {_noun(sweep)}, "
        f"dialect {sweep.dialect}, opened {sweep.created_at}",
        *(_run_line(run) for run in sweep.runs[-1:]),
        _trials_line(sweep, log),
        *known_lines(sweep, log),
    ]
    state = state_of(sweep, log, utc_now(), steps)
    if sweep.finished_at is None:
        lines.append(far(state))
    lines += [f"  {_claim_line(claim, steps)}" for claim in log.unfinished if not _given_up(claim, log)]
    if log.torn_bytes:
        lines.append(f"  the last line of trials.jsonl is cut ({log.torn_bytes} bytes); it is left out")
    lines += [line.plain.rstrip() for line in maps(state.cells, _WIDTH, _HEIGHT)]
    lines.append(_next_step(sweep))
    return lines


def known_lines(sweep: Sweep, log: TrialLog) -> list[str]:
    """What a search knows and what is open, a line for each hardware class; none for a list of items."""
    if sweep.plan.frontier is None:
        return []
    classes = log.hardware_classes(sweep) or [""]
    lines = []
    for name in classes:
        history = History.of(log, name, this_run=lambda _: True, in_flight=lambda _: False)
        said = planner.known_and_open(sweep.plan, history.past, sweep.known_of(name))
        lines.append(f"{name}: {said}" if len(classes) > 1 else said)
    return lines


def _noun(sweep: Sweep) -> str:
    return "items" if sweep.plan.frontier is None else "cells"


def _run_line(run: Run) -> str:
    if run.ended_at is not None:
        return f"last run: {run.outcome} at {run.ended_at}: {run.reason or 'no reason given'}"
    words = {
        "alive": "works",
        "dead": "died without closing the sweep",
        "elsewhere": "runs on another machine, whether it lives cannot be told from here",
    }
    return f"last run: {run.controller}, since {run.started_at}: {words[liveness(run.controller)]}"


def _trials_line(sweep: Sweep, log: TrialLog) -> str:
    counts = Counter(line.status for line in log.finished.values())
    told = ", ".join(f"{number} {status}" for status, number in counts.most_common()) or "none"
    if sweep.plan.frontier is not None:
        return f"trials: {len(log.finished)} finished ({told})"
    begun = {claim.item_id for claim in log.started.values()}
    left = sum(item.item_id not in begun for item in sweep.plan.items)
    return f"trials: {len(log.finished)} finished ({told}), {left} items not begun"


def _claim_line(claim: Started, steps: Mapping[str, Step]) -> str:
    lives = liveness(claim.controller)
    since = duration(seconds_between(claim.at, utc_now()))
    if lives == "dead":
        return f"[{claim.host}] {claim.key.label}: interrupted; it is run again by the next run"
    words = f"[{claim.host}] {claim.key.label}: under way for {since} ({claim.purpose}: {claim.reason})"
    step = step_of(claim, steps)
    if step is None:
        return words
    return f"{words}; now: {clean(step.task, 100)} ({duration(seconds_between(step.since, utc_now()))})"


def _given_up(claim: Started, log: TrialLog) -> bool:
    """Tell whether a later trial of the same item has a verdict: the interrupted one is history then."""
    return any(
        later.item_id == claim.item_id and later.seq > claim.seq and trial_id in log.finished
        for trial_id, later in log.started.items()
    )


def _next_step(sweep: Sweep) -> str:
    if sweep.finished_at is not None:
        return f"finished {sweep.finished_at}: treeline report {sweep.sweep_id}"
    if any(run.ended_at is None and liveness(run.controller) == "alive" for run in sweep.runs):
        return f"so far: treeline report {sweep.sweep_id}"
    if sweep.outcome == "complete":
        return "complete, but not restored: run the same command again, or ansible-playbook restore.yml"
    return "unfinished: run the same command again to go on"
