"""What a sweep folder says about a sweep that runs, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from treeline import plan as planner
from treeline import progress
from treeline.controller import liveness
from treeline.keys import Plan, RestartKey
from treeline.plan import History
from treeline.records import Finished, Sweep, seconds_between, utc_now
from treeline.store import SweepStore, TrialLog

VERDICTS = 5


@dataclass(frozen=True)
class Step:
    """What ansible-playbook does on a host: a task, and when it began (ISO 8601)."""

    task: str
    since: str


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
    cells: Mapping[RestartKey, str] = field(default_factory=dict)
    ended: str | None = None
    alive: bool = True


def look(folder: Path, steps: Mapping[str, Step] | None = None) -> State:
    """Read a sweep folder once. Raises StoreError.

    steps: what each host does now, where the caller runs the playbook itself.
    """
    store = SweepStore(folder)
    return state_of(store.read_sweep(), store.read_trials(), utc_now(), steps or {})


def state_of(sweep: Sweep, log: TrialLog, now: str, steps: Mapping[str, Step]) -> State:
    """The same from records that are read already."""
    run = sweep.runs[-1] if sweep.runs else None
    finished = list(log.finished.values())
    flying = [claim for claim in log.unfinished if liveness(claim.controller) != "dead"]
    classes = sorted({about.hardware_class for about in sweep.provenance.values()})
    histories = {
        name: History.of(
            log,
            name,
            this_run=lambda claim: True,
            in_flight=lambda claim: liveness(claim.controller) != "dead",
        )
        for name in classes or [""]
    }
    left = sum(planner.remaining(sweep.plan, history.past) for history in histories.values())
    # Trials of other purposes (anchors, confirmations) have their own time; the mean over all is near enough.
    hosts = max(1, len(sweep.provenance))
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
                step=steps.get(claim.host),
            )
            for claim in flying
        ),
        verdicts=tuple(finished[-VERDICTS:]),
        counts=counts,
        cells=_cells(sweep.plan, histories),
        ended=None
        if run is None or run.ended_at is None
        else f"{run.outcome}: {run.reason or 'no reason given'}",
        alive=run is not None and run.ended_at is None and liveness(run.controller) != "dead",
    )


def _until(sweep: Sweep, now: str) -> str:
    return (sweep.runs[-1].ended_at if sweep.runs else None) or now


def _cells(plan: Plan, histories: Mapping[str, History]) -> dict[RestartKey, str]:
    keys = {item.cell: item.key for item in plan.items}
    if plan.frontier is not None:
        for part in plan.frontier.slices:
            for column in part.columns:
                for limit in column.maxreqs:
                    key = part.key(column.budget, limit)
                    keys[key.slug] = key
    worst: dict[RestartKey, str] = {}
    for history in histories.values():
        for slug, cell in planner.cells(plan, history.past).items():
            key = keys[slug]
            if key not in worst or worst[key] in ("open", "good", "implied_good"):
                worst[key] = cell.state if cell.state != "open" or key not in worst else worst[key]
    return worst
