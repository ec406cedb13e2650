"""The story of a sweep: what was run and why, what came of it, and what it means."""

from __future__ import annotations

from pathlib import Path

from treeline.plain import clean
from treeline.plan import History
from treeline.plan.story import search_lines
from treeline.progress import duration, verdict_line
from treeline.records import Finished, Started, Sweep, seconds_between
from treeline.store import SweepStore, TrialLog


def explain(sweep_dir: Path) -> list[str]:
    """Every trial of a sweep with its reason and its end; for a frontier also the map and what it rests on.

    Raises:
        StoreError: the sweep cannot be read.
    """
    store = SweepStore(sweep_dir)
    sweep, log = store.read_sweep(), store.read_trials()
    lines = [f"sweep {sweep.sweep_id}: plan {sweep.plan.kind}, dialect {sweep.dialect}"]
    classes = dict.fromkeys(line.hardware_class for line in log.started.values())
    for name in classes:
        lines += ["", f"hardware class {name}", *_steps(log, name), *_search(sweep, log, name)]
    if not classes:
        lines += _search(sweep, log, "")
    if sweep.plan.excluded:
        lines += ["", "left out:"]
        lines += [f"  {excluded.key.label}: {excluded.reason}" for excluded in sweep.plan.excluded]
    return lines


def _search(sweep: Sweep, log: TrialLog, hardware_class: str) -> list[str]:
    history = History.of(log, hardware_class, this_run=lambda _: True, in_flight=lambda _: False)
    said = search_lines(sweep.plan, history.past, sweep.known_of(hardware_class))
    return ["", *said] if said else []


def _steps(log: TrialLog, hardware_class: str) -> list[str]:
    mine = [line for line in log.started.values() if line.hardware_class == hardware_class]
    lines = []
    for number, claim in enumerate(mine, start=1):
        lines.append(f"{number:>4}. {claim.at[:19]}Z [{claim.host}] {claim.key.label}")
        lines.append(f"      why: {claim.purpose}: {clean(claim.reason, 400)}")
        lines.append(f"      {_end(claim, log.finished.get(claim.trial_id))}")
    return lines


def _end(claim: Started, verdict: Finished | None) -> str:
    if verdict is None:
        return "end: no verdict; it was interrupted or is under way"
    words = clean(verdict_line(verdict).split(": ", 1)[-1], 300)
    return f"end: {words} (after {duration(seconds_between(claim.at, verdict.at))}; {verdict.effect})"
