"""A sweep's trials as a tidy pandas frame: one row a trial, failed ones included."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pandas as pd

from treeline.controller import liveness
from treeline.keys import KEY_FIELDS
from treeline.records import Finished, Started, Sweep
from treeline.store import TrialLog

TRIAL_COLUMNS = (
    "trial_id",
    "item_id",
    "cell",
    "purpose",
    "ordinal",
    "host",
    "hardware_class",
    *KEY_FIELDS,
    "label",
    "rows",
    "status",
    "class",
    "phase",
    "step",
    "kind",
    "effect",
    "AL",
    "first_error",
    "rank",
    "captured_bs",
    "secondary",
    "advice",
    "evidence",
    "engine",
    "simulated",
    "extrapolated",
    "started_at",
    "finished_at",
    "total_s",
    "latest",
)
"""Columns of a trials frame; `tok_s_c<concurrency>[_ctx<context>]` (tokens/s) follow, one per client key.

`label` is the restart key for people. `latest` marks the trial that speaks for its item: the last finished
one, else the last begun.
"""

_RATE = re.compile(r"tok_s_c(\d+)(?:_ctx(\d+))?$")


def trials_frame(log: TrialLog, sweep: Sweep | None = None) -> pd.DataFrame:
    """Return every trial of a log, in the order in which they were claimed.

    A trial without a verdict has the status `running` while its controller lives (as far as this machine
    can tell), else `interrupted`. With `sweep`, rows are sorted by the order of the plan.
    """
    rows = [_trial(claim, log.finished.get(trial_id)) for trial_id, claim in log.started.items()]
    frame = pd.DataFrame(rows)
    rates = sorted({name for row in rows for name in row if _RATE.match(name)}, key=_rate_order)
    frame = frame.reindex(columns=[*(name for name in TRIAL_COLUMNS if name != "latest"), *rates])
    frame = frame.astype({"graph_max_bs": "Int64", "rank": "Int64", "captured_bs": "Int64", "rows": "Int64"})
    frame.insert(len(TRIAL_COLUMNS) - 1, "latest", _latest(log, frame["trial_id"]))
    if sweep is not None and not frame.empty:
        order = {item.item_id: number for number, item in enumerate(sweep.plan.items)}
        place = frame["item_id"].map(lambda item_id: order.get(item_id, len(order)))
        frame = frame.assign(_place=place).sort_values("_place", kind="stable").drop(columns="_place")
    return frame.reset_index(drop=True)


def rate_columns(frame: pd.DataFrame) -> list[str]:
    """Return the throughput columns of a trials frame, by concurrency."""
    return [name for name in frame.columns if _RATE.match(name)]


def rate_label(column: str) -> str:
    """Return a throughput column's name for people, such as `tok/s@8`."""
    found = _RATE.match(column)
    if found is None:
        return column
    return f"tok/s@{found[1]}" + (f" ctx {found[2]}" if found[2] else "")


def _rate_order(column: str) -> tuple[int, int]:
    found = _RATE.match(column)
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)


def _trial(claim: Started, verdict: Finished | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        name: getattr(claim, name)
        for name in ("trial_id", "item_id", "cell", "purpose", "ordinal", "host", "hardware_class")
    }
    row |= {column: getattr(claim.key, column) for column in KEY_FIELDS}
    row |= {"label": claim.key.label, "rows": claim.key.rows, "started_at": claim.at}
    if verdict is None:
        status = "running" if liveness(claim.controller) == "alive" else "interrupted"
        return row | {"status": status, "simulated": False}
    row |= {
        name: getattr(verdict, name)
        for name in (
            "status", "phase", "step", "kind", "effect", "first_error", "rank", "captured_bs", "advice",
            "evidence", "engine", "simulated", "extrapolated",
        )
    }  # fmt: skip
    row |= {
        "class": verdict.class_,
        "AL": verdict.al,
        "secondary": " ".join(verdict.secondary),
        "finished_at": verdict.at,
        "total_s": verdict.times.total_s,
    }
    return row | {_rate_column(name): value for name, value in verdict.throughput.items()}


def _rate_column(name: str) -> str:
    concurrency, _, context = name.partition("@")
    return f"tok_s_c{concurrency}" + (f"_ctx{context}" if context else "")


def _latest(log: TrialLog, trial_ids: Iterable[str]) -> list[bool]:
    last: dict[str, str] = {}
    for trial_id, claim in log.started.items():
        previous = last.get(claim.item_id)
        # A verdict is not taken back by a later attempt that came to nothing.
        if previous is None or trial_id in log.finished or previous not in log.finished:
            last[claim.item_id] = trial_id
    chosen = set(last.values())
    return [trial_id in chosen for trial_id in trial_ids]
