"""The frontier map: what works, what died of what, what was implied, and what is not known."""

from __future__ import annotations

import textwrap
from math import log2
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from treeline.plots import style
from treeline.plots.drawn import Drawn, draw, headed, nothing, simulated

NAME, TITLE = "frontier", "Frontier: what works and what does not"
PANELS = 12
PANEL = ["hardware_class", "engine_build", "slice"]
_HATCH = {"implied_good": "///", "implied_bad": "///", "known_bad": "..."}
_WORKS = ("good", "implied_good")
_SHORT = {
    "cublas_execution_failed": "CUBLAS",
    "illegal_address": "illegal\naddress",
    "silent_corruption": "garbled",
    "spec_disabled": "no spec",
}


@draw
def frontier_map(cells: pd.DataFrame, *, text: str = "AL", rows_prior: int | None = 1200) -> Drawn:
    """Draw budget x maxreq for each hardware class, build and slice.

    Args:
        cells: ``frames.cells``: one row a cell with ``state``, ``class`` and figures.
        text: what stands in a cell that works: ``AL`` or ``tok_s``.
        rows_prior: rows above which the prior expects trouble; the dashed line. None draws no such line.
    """
    if cells.empty:
        return nothing(NAME, TITLE, "No cell was planned or measured yet.")
    groups = [(names, group) for names, group in cells.groupby(PANEL, sort=True, dropna=False)]
    shown = groups[:PANELS]
    causes = sorted({_cause(row) for row in cells.to_dict("records")} - {""})
    colours = style.colours_of(causes)
    columns = min(2 if len(shown) < 7 else 3, len(shown))
    lines = -(-len(shown) // columns)
    # All panels have the same places, so that slices can be compared by eye.
    limits = sorted({int(value) for _, group in shown for value in group["maxreq"]})
    budgets = sorted({int(value) for _, group in shown for value in group["budget"]})
    figure = style.figure(
        max(6.4, columns * max(2.8, 0.72 * len(limits) + 1.0)),
        lines * max(1.9, 0.5 * len(budgets) + 1.2) + 1.0,
    )
    title = style.titled(TITLE, simulated(cells))
    headed(figure, title)
    grid = figure.subplots(lines, columns, squeeze=False)
    for axes in grid.flat[len(shown) :]:
        axes.set_visible(False)
    several = {name: cells[name].nunique(dropna=False) > 1 for name in PANEL}
    for axes, (names, group) in zip(grid.flat, shown, strict=False):
        _panel(axes, group, (limits, budgets), colours, text, rows_prior)
        told = [
            str(value) for name, value in zip(PANEL, names, strict=True) if name == "slice" or several[name]
        ]
        axes.set_title("\n".join(textwrap.fill(line, 44) for line in told), loc="left", pad=12)
    figure.legend(
        handles=_legend(cells, colours, rows_prior), loc="outside lower left", ncols=3, handlelength=1.6
    )
    counts = cells["state"].value_counts()
    alt = ", ".join(f"{number} cells {str(state).replace('_', ' ')}" for state, number in counts.items())
    if len(groups) > PANELS:
        alt += f"; {len(groups) - PANELS} more slices are not drawn"
    return Drawn(NAME, title, alt + ".", figure)


def _panel(
    axes: Axes,
    cells: pd.DataFrame,
    places: tuple[list[int], list[int]],
    colours: dict[str, str],
    text: str,
    prior: int | None,
) -> None:
    limits, budgets = places
    for row in cells.to_dict("records"):
        x, y = limits.index(int(row["maxreq"])), budgets.index(int(row["budget"]))
        _cell(axes, x, y, row, colours, text)
    axes.set_xlim(-0.5, len(limits) - 0.5)
    axes.set_ylim(-0.5, len(budgets) - 0.5)
    axes.set_xticks(range(len(limits)), [str(limit) for limit in limits])
    axes.set_yticks(range(len(budgets)), [str(budget) for budget in budgets])
    axes.tick_params(length=0)
    axes.set_xlabel("maxreq")
    axes.set_ylabel("budget")
    for side in axes.spines.values():
        side.set_visible(False)
    for rows in _iso_lines(cells, prior):
        _iso(axes, limits, budgets, rows, rows == prior)


def _cell(axes: Axes, x: int, y: int, row: dict[Any, Any], colours: dict[str, str], text: str) -> None:
    state = str(row["state"])
    face = style.GOOD if state in _WORKS else colours.get(_cause(row), style.UNKNOWN)
    if state == "mixed":
        face = style.GOOD
    implied = state in _HATCH
    axes.add_patch(
        Rectangle(
            (x - 0.47, y - 0.45),
            0.94,
            0.9,
            facecolor=face if state not in ("open", "unknown") else style.UNKNOWN,
            edgecolor=style.GRID if state == "open" else style.INK,
            alpha=0.45 if implied else 1.0,
            hatch=_HATCH.get(state),
            linewidth=0.6,
        )
    )
    if state == "mixed":
        triangle = [(x - 0.47, y - 0.45), (x + 0.47, y - 0.45), (x + 0.47, y + 0.45)]
        axes.fill(*zip(*triangle, strict=True), color=colours.get(_cause(row), style.FAINT), linewidth=0)
    dark = "#101214" if face != style.UNKNOWN else style.INK
    if state not in ("open", *_HATCH):
        # The patch behind the words keeps iso-lines off them.
        axes.text(
            x, y, _words(row, text), ha="center", va="center", fontsize=6.6, color=dark, linespacing=0.95,
            bbox={"facecolor": face, "edgecolor": "none", "pad": 0.6} if state != "mixed" else None,
        )  # fmt: skip


def _words(row: dict[Any, Any], text: str) -> str:
    state = str(row["state"])
    if state == "unknown":
        return "?"
    if state == "mixed":
        return "mixed"
    if state == "bad":
        cause = _cause(row)
        mark = "*" if row.get("extrapolated") else ""
        return _SHORT.get(cause, "\n".join(cause.split("_")[:2])) + mark
    value = row.get(text)
    if value is None or pd.isna(value):
        return "ok"
    return f"AL {value:.1f}" if text == "AL" else f"{value:.0f}\ntok/s"


def _cause(row: dict[Any, Any]) -> str:
    """What a cell that does not work died of; empty for one that works or is not known."""
    state = str(row["state"])
    if state in ("implied_bad", "known_bad"):
        return "not measured"
    if state not in ("bad", "mixed"):
        return ""
    for name in ("class", "status"):
        value = row.get(name)
        if isinstance(value, str) and value and value != "ok":
            return value
    return "failed"


def _iso_lines(cells: pd.DataFrame, prior: int | None) -> list[int]:
    """Rows of the iso-lines: the prior, its half and its double, where cells lie on both sides."""
    low, high = int(cells["rows"].min()), int(cells["rows"].max())
    return [rows for rows in ((prior // 2, prior, prior * 2) if prior else ()) if low <= rows <= high]


def _iso(axes: Axes, limits: list[int], budgets: list[int], rows: int, is_prior: bool) -> None:
    """Draw where maxreq x (budget + 1) = rows, between the places of the categories."""
    logs = [log2(limit) for limit in limits]
    if len(limits) < 2 or len(budgets) < 2:
        return
    heights = np.linspace(0, len(budgets) - 1, 40)
    budget_logs = np.interp(heights, range(len(budgets)), [log2(budget + 1) for budget in budgets])
    wanted = log2(rows) - budget_logs
    places = np.interp(wanted, logs, range(len(limits)), left=np.nan, right=np.nan)
    inside = ~np.isnan(places)
    if not inside.any():
        return
    axes.plot(
        places[inside],
        heights[inside],
        color=style.INK,
        linewidth=1.6 if is_prior else 0.8,
        linestyle="--" if is_prior else ":",
    )
    top = int(np.flatnonzero(inside)[-1])
    axes.annotate(
        str(rows),
        (places[top], heights[top]),
        (2, 2),
        textcoords="offset points",
        fontsize=6.5,
        clip_on=False,
    )


def _legend(cells: pd.DataFrame, colours: dict[str, str], prior: int | None) -> list[Any]:
    from matplotlib.lines import Line2D

    states = set(cells["state"])
    handles: list[Any] = [Patch(facecolor=style.GOOD, edgecolor=style.INK, label="works")]
    handles += [
        Patch(facecolor=colour, edgecolor=style.INK, label=name)
        for name, colour in colours.items()
        if name != "not measured"
    ]
    if states & set(_HATCH):
        handles.append(
            Patch(facecolor=style.PAPER, edgecolor=style.INK, hatch="///", label="implied, not measured")
        )
    if "known_bad" in states:
        handles.append(Patch(facecolor=style.PAPER, edgecolor=style.INK, hatch="...", label="crash memory"))
    handles.append(Patch(facecolor=style.UNKNOWN, edgecolor=style.GRID, label="blank: not known"))
    if prior is not None:
        handles.append(Line2D([], [], color=style.INK, linestyle="--", label=f"{prior} rows (prior)"))
    if cells["extrapolated"].astype("boolean").fillna(False).any():
        handles.append(Line2D([], [], linestyle="", marker="", label="* extrapolated, never observed"))
    return handles
