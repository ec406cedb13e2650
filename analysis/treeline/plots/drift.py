"""Whether the host changed while it measured: the anchor over time."""

from __future__ import annotations

import pandas as pd

from treeline.plots import style
from treeline.plots.drawn import Drawn, draw, headed, nothing, simulated
from treeline.stats.drift import LIMIT, drift


@draw
def anchor_drift(anchors: pd.DataFrame) -> Drawn:
    """Draw how far the anchor moved from its first life (``summaries.anchors``), with what the GPUs did."""
    name, title = "anchor_drift", style.titled("Drift of the anchor", simulated(anchors))
    if anchors.empty:
        return nothing(name, title, "No anchor was measured, so drift cannot be told from difference.")
    told = [column for column in ("temperature_c", "power_w") if anchors[column].notna().any()]
    figure = style.figure(7.5, 3.0 + 1.2 * len(told))
    headed(figure, title)
    grid = figure.subplots(
        1 + len(told), 1, sharex=True, squeeze=False, height_ratios=[2.2] + [1] * len(told)
    )
    groups = list(anchors.groupby(["host", "sweep_id"], sort=True))
    several = len(anchors[["host", "sweep_id", "label"]].drop_duplicates()) > 1
    verdicts: list[str] = []
    for at, ((host, sweep), rows) in enumerate(groups):
        begun = pd.to_datetime(rows["started_at"], utc=True)
        hours = (begun - begun.min()).dt.total_seconds() / 3600
        look = {
            "color": style.LINES[at % len(style.LINES)],
            "marker": style.MARKS[at % len(style.MARKS)],
            "markersize": 5,
        }
        label = f"{host}, {str(sweep)[:16]}" if len(groups) > 1 else str(host)
        grid[0][0].plot(hours, rows["moved"] * 100, label=label, **look)
        for cell, lives in rows.groupby("label", sort=False):
            rates = lives["tok_s"].dropna()
            said = drift([float(rate) for rate in rates[rates > 0]]).text
            verdicts.append(f"{label}, {cell}: {said}" if several else said)
        for place, column in enumerate(told, 1):
            grid[place][0].plot(hours, rows[column], **look)
    grid[0][0].axhspan(-LIMIT * 100, LIMIT * 100, color=style.GRID, alpha=0.5, zorder=0)
    grid[0][0].axhline(0, color=style.INK, linewidth=0.8)
    style.tidy(grid[0][0], "", "tok/s against the\nfirst anchor, %")
    names = {"temperature_c": "°C, highest", "power_w": "W, mean"}
    for place, column in enumerate(told, 1):
        style.tidy(grid[place][0], "", names[column])
    grid[-1][0].set_xlabel("hours since the first anchor")
    figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside lower left", ncols=3)
    said = "; ".join(verdicts)
    return Drawn(name, title, f"{said[0].upper()}{said[1:]}.", figure)
