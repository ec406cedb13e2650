"""Plots of sweeps, one function each, all in one style: readable in print and without telling colours apart.

A function takes a frame of ``treeline.frames`` and returns a ``Drawn``: it shows itself in a notebook and
saves as SVG and PNG. A frame without rows gives a plot that says what is missing. matplotlib is used without
pyplot, so nothing is kept between plots.
"""

from treeline.plots.acceptance import acceptance_vs_budget, per_position
from treeline.plots.course import search_course, time_budget
from treeline.plots.drawn import Drawn
from treeline.plots.drift import anchor_drift
from treeline.plots.frontier import frontier_map
from treeline.plots.load import goodput_vs_concurrency, step_time
from treeline.plots.pareto import pareto

__all__ = [
    "Drawn",
    "acceptance_vs_budget",
    "anchor_drift",
    "frontier_map",
    "goodput_vs_concurrency",
    "pareto",
    "per_position",
    "search_course",
    "step_time",
    "time_budget",
]
