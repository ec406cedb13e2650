"""The one style of all plots: colours, marks and sizes.

The colours are those of Okabe and Ito, which people with any usual colour blindness can tell apart; besides
its colour everything has a mark, a hatch or a word, so that a black and white print says the same.
"""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

INK = "#1b1f24"
PAPER = "#fefefe"
FAINT = "#8a9099"
GRID = "#d9dde2"
GOOD = "#56b4e9"
UNKNOWN = PAPER

LINES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6f6f6f")
MARKS = ("o", "s", "^", "D", "v", "P", "X")

_CAUSES = ("#d55e00", "#cc79a7", "#e69f00", "#f0e442", "#009e73", "#a6761d", "#9e9ac8")
_FIXED = {
    "cublas_execution_failed": "#d55e00",
    "illegal_address": "#e69f00",
    "silent_corruption": "#cc79a7",
    "spec_disabled": "#f0e442",
    "not measured": "#b8b8b8",
}
SIMULATED = "simulated timing"

# Any: the names that matplotlib knows differ from version to version.
RC: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.0,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.facecolor": PAPER,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "text.color": INK,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "hatch.linewidth": 0.6,
    "hatch.color": INK,
    "svg.fonttype": "none",
    "svg.hashsalt": "treeline",
}


def figure(width: float, height: float) -> Figure:
    """Return a figure of so many inches that draws itself to files only."""
    made = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(made)
    return made


def colours_of(classes: list[str]) -> dict[str, str]:
    """Return a colour for each failure class; the usual ones keep theirs from plot to plot."""
    spare = [
        colour for colour in _CAUSES if colour not in {_FIXED[name] for name in classes if name in _FIXED}
    ]
    others = [name for name in classes if name not in _FIXED]
    return {name: _FIXED[name] for name in classes if name in _FIXED} | {
        name: (spare or list(_CAUSES))[at % len(spare or _CAUSES)] for at, name in enumerate(others)
    }


def tidy(axes: Axes, xlabel: str, ylabel: str, *, grid: str = "y") -> None:
    """Label both axes and draw the grid along one."""
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    if grid:
        axes.grid(axis=grid)  # type: ignore[arg-type]


def whole_ticks(axes: Axes, values: list[int]) -> None:
    """Put the ticks of a logarithmic x axis where values are, as plain numbers, without crowding."""
    from math import log2

    axes.set_xscale("log", base=2)
    kept: list[int] = []
    wide = log2(max(values) / min(values)) if values and min(values) > 0 else 0.0
    for value in sorted(values):
        if not kept or log2(value / kept[-1]) >= wide / 14:
            kept.append(value)
    axes.set_xticks(kept, [str(value) for value in kept])
    axes.minorticks_off()


def titled(title: str, simulated: bool) -> str:
    """Return a title that says so where timing is simulated."""
    return f"{title} ({SIMULATED})" if simulated else title
