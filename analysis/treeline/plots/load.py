"""How a service takes its load: goodput against concurrency, and the cost of a verify step."""

from __future__ import annotations

import pandas as pd

from treeline.plots import style
from treeline.plots.drawn import Drawn, draw, headed, nothing, simulated

_LINES = 8


@draw
def goodput_vs_concurrency(goodput: pd.DataFrame) -> Drawn:
    """Draw requests/s within the service level against concurrency (``summaries.goodput``)."""
    name = "goodput"
    title = style.titled("Goodput against concurrency", simulated(goodput))
    if goodput.empty:
        return nothing(name, title, "No load was given a service level (TTFT, TPOT), so none was judged.")
    figure = style.figure(7.5, 3.8)
    headed(figure, f"{title}: {goodput['slo'].iloc[0]}")
    left, right = figure.subplots(1, 2)
    for at, label in enumerate(sorted(goodput["label"].unique())[:_LINES]):
        rows = (
            goodput[goodput["label"] == label]
            .groupby("concurrency", as_index=False)[["goodput", "share"]]
            .mean()
        )
        for axes, column in ((left, "goodput"), (right, "share")):
            axes.plot(
                rows["concurrency"].astype(float), rows[column], label=label, markersize=4.5,
                color=style.LINES[at % len(style.LINES)], marker=style.MARKS[at % len(style.MARKS)],
            )  # fmt: skip
    for axes in (left, right):
        style.whole_ticks(axes, sorted(int(value) for value in goodput["concurrency"].unique()))
    right.set_ylim(0, 1.02)
    right.axhline(0.99, color=style.INK, linestyle="--", linewidth=0.8)
    right.annotate("99 %", (right.get_xlim()[0], 0.99), (2, -9), textcoords="offset points", fontsize=7)
    style.tidy(left, "concurrency", "requests/s within the service level")
    style.tidy(right, "concurrency", "share of requests within it")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower left", ncols=2)
    ordered = goodput.dropna(subset=["goodput"]).sort_values("goodput")
    best = None if ordered.empty else ordered.iloc[-1]
    alt = (
        "Nothing kept it."
        if best is None
        else f"Highest: {best['goodput']:.3g} requests/s at concurrency {int(best['concurrency'])}."
    )
    return Drawn(name, title, alt, figure)


@draw
def step_time(lives: pd.DataFrame, *, line: str = "slice", concurrency: int | None = None) -> Drawn:
    """Draw ms of a verify step against the tokens that it yields; each point is named by its budget.

    A jump in ms without more tokens is a cliff of the kernels. Lines of equal tok/s/user go through the
    origin: what lies lower right is faster.

    Args:
        lives: rows with ``al``, ``ms_step``, ``budget``, ``concurrency``, ``status`` and the column ``line``.
        concurrency: which one to draw; None takes the lowest that every line has, else the lowest.
    """
    name = "step_time"
    title = style.titled("Cost and yield of a verify step", simulated(lives))
    good = lives[(lives["status"] == "ok") & lives["ms_step"].notna() & lives["al"].notna()]
    if good.empty:
        return nothing(name, title, "No trial that ended ok has both an acceptance length and tok/s.")
    at_load = int(good["concurrency"].min()) if concurrency is None else concurrency
    drawn = good[good["concurrency"] == at_load]
    title = f"{title}, concurrency {at_load}"
    figure = style.figure(7.5, 4.2)
    headed(figure, title)
    axes = figure.subplots()
    for at, value in enumerate(sorted(drawn[line].unique())[:_LINES]):
        rows = (
            drawn[drawn[line] == value]
            .groupby("budget", as_index=False)[["al", "ms_step"]]
            .mean()
            .sort_values("budget")
        )
        axes.plot(
            rows["al"], rows["ms_step"], color=style.LINES[at % len(style.LINES)], linewidth=0.9,
            marker=style.MARKS[at % len(style.MARKS)], markersize=5, label=str(value),
        )  # fmt: skip
        for row in rows.to_dict("records"):
            named = f"b{int(row['budget'])}" if row["budget"] else "no spec"
            axes.annotate(
                named, (row["al"], row["ms_step"]), (5, 3), textcoords="offset points", fontsize=7.5
            )
    axes.margins(0.12)
    _rates(axes)
    style.tidy(axes, "tokens per verify step (acceptance length)", "ms per verify step", grid="both")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower left", ncols=2)
    fastest = drawn.assign(rate=drawn["al"] / drawn["ms_step"]).sort_values("rate").iloc[-1]
    alt = (
        f"Most tokens for its time: budget {int(fastest['budget'])}, {fastest['rate'] * 1000:.4g} tok/s/user."
    )
    return Drawn(name, title, alt, figure)


def _rates(axes: object) -> None:
    """Lines of equal tok/s/user through the shown part."""
    from matplotlib.axes import Axes
    from matplotlib.ticker import MaxNLocator

    assert isinstance(axes, Axes)  # noqa: S101
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    slowest, fastest = 1000 * left / high, 1000 * right / max(low, 1e-9)
    for rate in MaxNLocator(nbins=5).tick_values(slowest, fastest):
        if rate <= 0:
            continue
        ends = [1000 * left / rate, 1000 * right / rate]
        if ends[1] < low or ends[0] > high:
            continue
        axes.plot([left, right], ends, color="#8a9099", linewidth=0.6, linestyle=":", zorder=0)
        x = min(right, rate * high / 1000)
        y = 1000 * x / rate
        axes.annotate(
            f"{rate:g} tok/s", (x, y), (-2, -8), textcoords="offset points", ha="right", fontsize=6.5,
            color="#6a7079",
        )  # fmt: skip
    axes.set_xlim(left, right)
    axes.set_ylim(low, high)
