"""What a sweep cost: where its time went, and what its restarts decided."""

from __future__ import annotations

from typing import Any

import pandas as pd

from treeline.plots import style
from treeline.plots.drawn import Drawn, draw, headed, nothing, simulated

_BARS = 30
_PARTS = {
    "restart": "restart",
    "ready": "load the model, capture, warm up",
    "load": "load test",
    "rest": "rest",
}
_HATCHES = ("", "///", "", "\\\\")
_COLOURS = ("#0072b2", "#56b4e9", "#e69f00", "#c9ced4")


@draw
def time_budget(parts: pd.DataFrame) -> Drawn:
    """Draw the seconds of each trial by part, stacked (``summaries.time_budget``)."""
    name, title = "time_budget", style.titled("Where the time went", simulated(parts))
    if parts.empty:
        return nothing(name, title, "No trial has ended yet.")
    wide = parts.pivot_table(index="trial_id", columns="part", values="seconds", aggfunc="sum", sort=False)
    about = parts.drop_duplicates("trial_id").set_index("trial_id")
    left_out = max(0, len(wide) - _BARS)
    drawn = wide.tail(_BARS)
    figure = style.figure(7.8, 1.6 + 0.24 * len(drawn))
    headed(figure, title)
    axes = figure.subplots()
    start = pd.Series(0.0, index=drawn.index)
    for (part, label), colour, hatch in zip(_PARTS.items(), _COLOURS, _HATCHES, strict=True):
        seconds = drawn[part].fillna(0.0) if part in drawn else start * 0
        axes.barh(
            range(len(drawn)), seconds, left=start, color=colour, hatch=hatch, label=label,
            edgecolor=style.INK, linewidth=0.4, height=0.72,
        )  # fmt: skip
        start = start + seconds
    labels = [_label(row) for row in about.loc[drawn.index].to_dict("records")]
    axes.set_yticks(range(len(drawn)), labels, fontsize=7)
    axes.invert_yaxis()
    style.tidy(
        axes, "seconds" + (f"; {left_out} earlier trials are not drawn" if left_out else ""), "", grid="x"
    )
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower left", ncols=4)
    total = wide.sum()
    shares = ", ".join(f"{_PARTS[str(part)]} {value / total.sum():.0%}" for part, value in total.items())
    return Drawn(name, title, f"{total.sum() / 3600:.2g} hours in {len(wide)} trials: {shares}.", figure)


def _label(row: dict[Any, Any]) -> str:
    return str(row["label"]) + ("" if row["status"] == "ok" else f" ({row['status']})")


@draw
def search_course(course: pd.DataFrame) -> Drawn:
    """Draw how many cells are decided after each restart (``frames.course``) and how many were measured."""
    name, title = "search_course", "Restarts spent and cells decided"
    if course.empty or course["restarts"].max() == 0:
        return nothing(name, title, "No trial has ended yet.")
    title = style.titled(title, simulated(course))
    figure = style.figure(7.5, 3.8)
    headed(figure, title)
    axes = figure.subplots()
    groups = list(course.groupby(["sweep_id", "hardware_class"], sort=True))
    for at, ((sweep, hardware), rows) in enumerate(groups[-7:]):
        colour = style.LINES[at % len(style.LINES)]
        label = f"{rows['plan'].iloc[0]} {str(sweep)[:16]} {hardware}"
        decided = _decided(rows)
        axes.plot(
            rows["restarts"], decided, drawstyle="steps-post", color=colour, linewidth=1.6,
            marker=style.MARKS[at % len(style.MARKS)], markersize=3.5, label=label,
        )  # fmt: skip
        if (decided > rows["measured"]).any():
            axes.plot(
                rows["restarts"], rows["measured"], drawstyle="steps-post", color=colour, linestyle=":",
                label="of them measured",
            )  # fmt: skip
        axes.axhline(rows["cells"].iloc[-1], color=colour, linewidth=0.7, linestyle="--")
    most = int(max(course["restarts"].max(), 1))
    axes.plot([0, most], [0, most], color=style.FAINT, linewidth=0.8, label="one cell a restart (a grid)")
    axes.set_ylim(bottom=0)
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    style.tidy(axes, "restarts (trials that ended)", "cells decided; dashed: cells of the plan")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower left", ncols=2)
    last = course.assign(decided=_decided).groupby(["sweep_id", "hardware_class"]).last()
    alt = "; ".join(
        f"{row['restarts']} restarts decided {row['decided']} of {row['cells']} cells"
        for row in last.tail(5).to_dict("records")
    )
    return Drawn(name, title, alt + ".", figure)


def _decided(course: pd.DataFrame) -> pd.Series:
    return course["measured"] + course["implied"] + course["remembered"]
