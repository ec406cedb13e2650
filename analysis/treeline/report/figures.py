"""Every plot of a set of results, in the order in which a report shows them."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from treeline import plots
from treeline.frames import summaries
from treeline.frames.course import course
from treeline.frames.results import Results
from treeline.plots import Drawn


def failed_trials(results: Results) -> pd.DataFrame:
    """Return the trials that ended, and not well."""
    trials = results.trials
    return trials[~trials["status"].isin(["ok", "running", "interrupted", "void"])]


def figures(results: Results) -> Iterator[Drawn]:
    """Draw every plot; one that has nothing to show says so."""
    points = summaries.points(results.measurements, results.trials)
    lives = summaries.lives(points)
    failed = failed_trials(results)
    yield plots.frontier_map(results.cells)
    yield acceptance(results)
    yield plots.pareto(points, failed)
    yield plots.goodput_vs_concurrency(summaries.goodput(points))
    yield plots.per_position(summaries.per_position(points))
    yield plots.step_time(lives)
    yield plots.anchor_drift(summaries.anchors(points))
    yield plots.time_budget(summaries.time_budget(results.trials))
    yield search_course(results)


def acceptance(results: Results, concurrency: int | None = None) -> Drawn:
    """Draw acceptance length and tok/s against budget at one concurrency; None takes the lowest measured."""
    points = summaries.points(results.measurements, results.trials)
    curve = summaries.best_per_budget(summaries.over_lives(summaries.lives(points)))
    curve = curve[curve["budget"] > 0]
    if not curve.empty:
        chosen = int(curve["concurrency"].min()) if concurrency is None else concurrency
        curve = curve[curve["concurrency"] == chosen]
        title = f"Acceptance length and throughput against budget, concurrency {chosen}"
    else:
        title = "Acceptance length and throughput against budget"
    several = curve["engine_build"].nunique() > 1 or curve["hardware_class"].nunique() > 1
    curve = curve.assign(
        line=curve["slice"]
        + (", " + curve["hardware_class"] + " " + curve["engine_build"] if several else "")
    )
    # A budget that works in some slice has its figure; crosses are for those that work nowhere.
    failed = failed_trials(results)
    failed = failed[~failed["budget"].isin(curve["budget"]) & (failed["budget"] > 0)]
    return plots.acceptance_vs_budget(curve, failed, line="line", title=title)


def search_course(results: Results) -> Drawn:
    """Draw restarts spent against cells decided."""
    return plots.search_course(course(results.logs))
