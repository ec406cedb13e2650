"""What a sweep folder says about a sweep that runs, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from treeline import plan as planner
from treeline import progress
from treeline.controller import liveness
from treeline.keys import RestartKey
from treeline.live.steps import Step, steps_left
from treeline.plan import History
from treeline.plan.cells import CellState
from treeline.records import Finished, Started, Sweep, seconds_between, utc_now
from treeline.store import SweepStore, TrialLog

VERDICTS = 5


@dataclass(frozen=True)
class Flight:
    """A trial under way."""

    host: str
    label: str
    purpose: str
    elapsed_s: float
    step: Step | None = None


@dataclass(frozen=True)
class State:
    """One look at a sweep.

    Attributes:
        done: trials with a verdict; ``left``: restarts still to come, an estimate for a frontier.
        left_s: seconds until the end; None where nothing tells.
        cells: state of every cell of the plan, the worst of all hardware classes, by key.
        verdicts: the last ones, the newest last.
        ended: how the last run closed; None while it runs.
    """

    sweep_id: str
    kind: str
    done: int
    left: int
    elapsed_s: float
    left_s: float | None
    simulated: bool
    flights: tuple[Flight, ...]
    verdicts: tuple[Finished, ...]
    counts: Mapping[str, int] = field(default_factory=dict)
    cells: Mapping[RestartKey, CellState] = field(default_factory=dict)
    ended: str | None = None
    alive: bool = True


def look(folder: Path, steps: Mapping[str, Step] | None = None) -> State:
    """Read a sweep folder once. Raises StoreError.

    steps: what each host does now, where the caller runs the playbook itself; else what that run left behind
    in the folder, if it leaves any.
    """
    store = SweepStore(folder)
    now_done = steps_left(folder) if steps is None else steps
    return state_of(store.read_sweep(), store.read_trials(), utc_now(), now_done)


def state_of(sweep: Sweep, log: TrialLog, now: str, steps: Mapping[str, Step]) -> State:
    """The same from records that are read already."""
    run = sweep.runs[-1] if sweep.runs else None
    finished = list(log.finished.values())
    flying = [claim for claim in log.unfinished if liveness(claim.controller) != "dead"]
    histories = {
        name: History.of(
            log,
            name,
            this_run=lambda claim: True,
            in_flight=lambda claim: liveness(claim.controller) != "dead",
        )
        # Where no host was reached nobody owes the plan yet; it is shown all the same.
        for name in log.hardware_classes(sweep) or [""]
    }
    left = sum(
        planner.remaining(sweep.plan, history.past, sweep.known_of(name))
        for name, history in histories.items()
    )
    # Trials of other purposes (anchors, confirmations) have their own time; the mean over all is near enough.
    hosts = max(1, sum(bool(about.hardware_class) for about in sweep.provenance.values()))
    counts: dict[str, int] = {}
    for line in finished:
        counts[line.status] = counts.get(line.status, 0) + 1
    return State(
        sweep_id=sweep.sweep_id,
        kind=sweep.plan.kind,
        done=len(finished),
        left=left,
        elapsed_s=seconds_between(run.started_at if run else sweep.created_at, _until(sweep, now)),
        left_s=progress.time_left(finished, left, hosts, None),
        simulated=any(line.simulated for line in finished),
        flights=tuple(
            Flight(
                host=claim.host,
                label=claim.key.short_label,
                purpose=claim.purpose,
                elapsed_s=seconds_between(claim.at, now),
                step=step_of(claim, steps),
            )
            for claim in flying
        ),
        verdicts=tuple(finished[-VERDICTS:]),
        counts=counts,
        cells=_cells(sweep, histories),
        ended=None
        if run is None or run.ended_at is None
        else f"{run.outcome}: {run.reason or 'no reason given'}",
        alive=run is not None and run.ended_at is None and liveness(run.controller) != "dead",
    )


def step_of(claim: Started, steps: Mapping[str, Step]) -> Step | None:
    """What the host of a trial does for it now; None where that is not told, or told of an earlier trial."""
    step = steps.get(claim.host)
    return step if step is not None and step.since >= claim.at else None


def _until(sweep: Sweep, now: str) -> str:
    return (sweep.runs[-1].ended_at if sweep.runs else None) or now


def _cells(sweep: Sweep, histories: Mapping[str, History]) -> dict[RestartKey, CellState]:
    keys = {key.slug: key for key in sweep.plan.restart_keys()}
    worst: dict[RestartKey, CellState] = {}
    for name, history in histories.items():
        for slug, cell in planner.cells(sweep.plan, history.past, sweep.known_of(name)).items():
            key = keys[slug]
            if key not in worst or worst[key] in ("open", "good", "implied_good"):
                worst[key] = cell.state if cell.state != "open" or key not in worst else worst[key]
    return worst
