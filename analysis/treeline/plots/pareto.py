"""Throughput of a GPU against what one user sees, with what failed beside it."""

from __future__ import annotations

import textwrap

import pandas as pd
from matplotlib.axes import Axes

from treeline.plots import style
from treeline.plots.drawn import Drawn, draw, headed, nothing, simulated

_LISTED = 14


def steps(points: pd.DataFrame) -> pd.DataFrame:
    """Return the points that no other beats in both rates, by rising tok/s/user."""
    ordered = points.sort_values(["tok_s_user", "tok_s_gpu"], ascending=False)
    beaten = ordered["tok_s_gpu"].cummax()
    best = ordered[(ordered["tok_s_gpu"] >= beaten) & ~ordered.duplicated(["tok_s_user", "tok_s_gpu"])]
    return best.drop_duplicates("tok_s_gpu").sort_values("tok_s_user", ignore_index=True)


@draw
def pareto(points: pd.DataFrame, failed: pd.DataFrame | None = None) -> Drawn:
    """Draw tok/s/GPU against tok/s/user (``summaries.points``), the Pareto steps, and list what failed.

    Args:
        points: rows with ``tok_s_user``, ``tok_s_gpu``, ``label``, ``concurrency`` and ``status``.
        failed: trials that did not end ok, with ``label``, ``status`` and ``class``; listed, never dropped.
    """
    name = "pareto"
    title = style.titled("Throughput per GPU against rate per user", simulated(points))
    good = points[(points["status"] == "ok") & points["tok_s_user"].notna() & points["tok_s_gpu"].notna()]
    if good.empty:
        return nothing(name, title, "No measurement of a trial that ended ok has both rates.")
    figure = style.figure(9.0, 4.6)
    headed(figure, title)
    axes, beside = figure.subplots(1, 2, width_ratios=(3, 1.25))
    labels = sorted(good["label"].unique())
    for at, label in enumerate(labels):
        rows = good[good["label"] == label].sort_values("tok_s_user")
        axes.plot(
            rows["tok_s_user"], rows["tok_s_gpu"], color=style.LINES[at % len(style.LINES)], linewidth=0.8,
            marker=style.MARKS[at % len(style.MARKS)], markersize=5, linestyle=":",
            label=label if at < 8 else None,
        )  # fmt: skip
        if len(labels) <= 6:
            for row in rows.to_dict("records"):
                axes.annotate(
                    f"c{int(row['concurrency'])}", (row["tok_s_user"], row["tok_s_gpu"]), (4, 3),
                    textcoords="offset points", fontsize=7,
                )  # fmt: skip
    border = steps(good)
    axes.step(
        border["tok_s_user"], border["tok_s_gpu"], where="pre", color=style.INK, linewidth=1.4,
        label="Pareto steps", zorder=1,
    )  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    _plain_logs(axes)
    style.tidy(axes, "tok/s for one user (1000 / median ms per token)", "output tok/s per GPU", grid="both")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower left", ncols=3)
    _listed(beside, failed)
    more = 0 if failed is None else len(failed)
    return Drawn(
        name, title, f"{len(border)} points on the Pareto steps; {more} failed trials beside.", figure
    )


def _plain_logs(axes: Axes) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.set_minor_formatter(NullFormatter())


def _listed(axes: Axes, failed: pd.DataFrame | None) -> None:
    axes.set_axis_off()
    axes.set_title("Failed, no point", loc="left")
    if failed is None or failed.empty:
        axes.text(0, 0.95, "none", va="top", fontsize=8, transform=axes.transAxes)
        return
    told = [
        textwrap.fill(f"x {row['label']}: {_cause(row)}", 34, subsequent_indent="   ")
        for row in failed.drop_duplicates(["label", "status"]).head(_LISTED).to_dict("records")
    ]
    left = len(failed.drop_duplicates(["label", "status"])) - len(told)
    if left > 0:
        told.append(f"and {left} more")
    axes.text(0, 0.97, "\n".join(told), va="top", fontsize=7, transform=axes.transAxes, linespacing=1.3)


def _cause(row: dict[object, object]) -> str:
    cause = row.get("class")
    return str(cause) if isinstance(cause, str) and cause != "ok" else str(row["status"])
