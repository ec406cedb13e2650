"""Acceptance length: what a larger budget buys, and which positions are accepted."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from treeline.plots import style
from treeline.plots.drawn import Drawn, draw, headed, nothing, simulated

LINES = 7


@draw
def acceptance_vs_budget(
    curve: pd.DataFrame,
    failed: pd.DataFrame | None = None,
    *,
    line: str = "slice",
    title: str = "Acceptance length and throughput against budget",
) -> Drawn:
    """Draw AL above and tok/s below, with intervals over service lives, and mark the highest of each line.

    Args:
        curve: rows with ``budget``, ``al``, ``tok_s`` and the column ``line``; optional ``al_low``,
            ``al_high``, ``tok_s_low``, ``tok_s_high`` and ``simulated``.
        failed: rows with ``budget`` (and ``reason``) of what gave no figure; crosses at the bottom.
        line: the column whose values are lines of their own.
    """
    name = "acceptance_vs_budget"
    title = style.titled(title, simulated(curve))
    if curve.empty:
        return nothing(name, title, "No trial ended ok, so there is no figure to draw.")
    figure = style.figure(7.5, 5.4)
    headed(figure, title)
    upper, lower = figure.subplots(2, 1, sharex=True)
    lines = sorted(curve[line].unique())
    for at, value in enumerate(lines[:LINES]):
        rows = curve[curve[line] == value].sort_values("budget")
        for axes, column in ((upper, "al"), (lower, "tok_s")):
            _line(axes, rows, column, at, str(value))
    budgets = [int(value) for value in curve["budget"].unique()]
    if failed is not None and not failed.empty:
        budgets += [int(value) for value in failed["budget"].unique()]
        _failed(lower, failed)
    style.tidy(upper, "", "acceptance length")
    style.tidy(lower, "budget (draft nodes)", "output tok/s")
    style.whole_ticks(lower, sorted({value for value in budgets if value > 0}))
    if len(lines) > 1 or (failed is not None and not failed.empty):
        handles, labels = lower.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower left", ncols=2)
    return Drawn(name, title, _told(curve, line, failed), figure)


def _line(axes: Axes, rows: pd.DataFrame, column: str, at: int, label: str) -> None:
    told = rows[rows[column].notna()]
    if told.empty:
        return
    colour, mark = style.LINES[at % len(style.LINES)], style.MARKS[at % len(style.MARKS)]
    x, y = told["budget"].astype(float), told[column].astype(float)
    axes.plot(x, y, color=colour, marker=mark, markersize=4.5, linewidth=1.3, label=label)
    low, high = f"{column}_low", f"{column}_high"
    if low in told:
        known = told[low].notna()
        if known.any():
            below = (y - told[low].astype(float))[known]
            above = (told[high].astype(float) - y)[known]
            axes.errorbar(x[known], y[known], yerr=[below, above], fmt="none", ecolor=colour, capsize=2.5)
    best: Any = y.idxmax()
    figure = f"{y[best]:.2f}" if column == "al" else f"{y[best]:.1f}"
    axes.margins(x=0.08, y=0.22)
    if len(told) < 2:
        return
    axes.annotate(
        f"highest at {int(x[best])}: {figure}", (x[best], y[best]), (0, 11), textcoords="offset points",
        ha="center", fontsize=7.5, color=colour,
    )  # fmt: skip
    axes.plot([x[best]], [y[best]], marker="o", markersize=10, fillstyle="none", color=colour)


def _failed(axes: Axes, failed: pd.DataFrame) -> None:
    marks = failed.drop_duplicates("budget")
    bottom = axes.get_xaxis_transform()
    axes.plot(
        marks["budget"].astype(float), [0.04] * len(marks), linestyle="", marker="X", markersize=8,
        color=style.INK, transform=bottom, zorder=5, label="failed, no figure",
    )  # fmt: skip
    for row in marks.head(8).to_dict("records"):
        place = (float(row["budget"]), 0.04)
        axes.annotate(
            f"{int(row['budget'])} failed", place, (0, 7), xycoords=bottom, textcoords="offset points",
            ha="center", fontsize=7,
        )  # fmt: skip


def _told(curve: pd.DataFrame, line: str, failed: pd.DataFrame | None) -> str:
    parts = []
    for value, rows in curve.groupby(line):
        for column, name in (("al", "acceptance length"), ("tok_s", "tok/s")):
            told = rows[rows[column].notna()]
            if not told.empty:
                at: Any = told[column].idxmax()
                best = told.loc[at]
                parts.append(
                    f"{value}: {name} is highest at budget {int(best['budget'])} ({best[column]:.4g})"
                )
    if failed is not None and not failed.empty:
        parts.append("failed: budget " + ", ".join(str(int(value)) for value in failed["budget"].unique()))
    return "; ".join(parts) + "."


@draw
def per_position(shares: pd.DataFrame) -> Drawn:
    """Draw how often each draft position was accepted (``summaries.per_position``), a line for each cell."""
    name, title = "per_position", style.titled("Acceptance by draft position", simulated(shares))
    if shares.empty:
        return nothing(name, title, "No measurement told how many drafts each verify step accepted.")
    figure = style.figure(7.5, 3.8)
    headed(figure, title)
    axes = figure.subplots()
    busiest = shares.groupby("label")["concurrency"].transform("max")
    drawn = shares[shares["concurrency"] == busiest]
    labels = sorted(drawn["label"].unique())
    for at, label in enumerate(labels[:LINES]):
        rows = drawn[drawn["label"] == label].groupby("position", as_index=False)["accepted"].mean()
        axes.plot(
            rows["position"], rows["accepted"], marker=style.MARKS[at % len(style.MARKS)], markersize=4.5,
            color=style.LINES[at % len(style.LINES)], label=label,
        )  # fmt: skip
    axes.set_ylim(0, 1.02)
    axes.set_xticks(sorted(int(value) for value in drawn["position"].unique()))
    style.tidy(axes, "draft position", "share of verify steps that accept it")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower left", ncols=2)
    first = drawn[drawn["position"] == 1]["accepted"].mean()
    return Drawn(
        name, title, f"The first position is accepted in {first:.0%} of the steps on average.", figure
    )
