"""pandera schemas of what is read from files. They hold at the border to the files and nowhere else."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pandera.pandas as pa
from pandera.typing import Series

MEASUREMENT_IDENTITY = (
    "trial_id",
    "sweep_id",
    "host",
    "hardware_class",
    "concurrency",
    "context",
    "repeat",
    "simulated",
)

STATES = (
    "good",
    "bad",
    "mixed",
    "unknown",
    "open",
    "implied_good",
    "implied_bad",
    "known_bad",
)

_KIND: dict[str, Any] = {"nullable": True, "coerce": True}


class Keyed(pa.DataFrameModel):
    """The restart key and its names."""

    budget: Series[pd.Int64Dtype] = pa.Field(ge=0, coerce=True)
    topk: Series[pd.Int64Dtype] = pa.Field(ge=1, coerce=True)
    maxreq: Series[pd.Int64Dtype] = pa.Field(ge=1, coerce=True)
    block_size: Series[pd.Int64Dtype] = pa.Field(ge=2, coerce=True)
    graphs: Series[bool] = pa.Field(coerce=True)
    graph_max_bs: Series[pd.Int64Dtype] = pa.Field(ge=1, **_KIND)
    attention_backend: Series[str] = pa.Field(**_KIND)
    cell: Series[str] = pa.Field(coerce=True)
    rows: Series[pd.Int64Dtype] = pa.Field(ge=0, coerce=True)
    slice: Series[str] = pa.Field(coerce=True)
    label: Series[str] = pa.Field(coerce=True)


class Measurements(Keyed):
    """One client key in one service life. Further fields of the record are passed on as they are."""

    trial_id: Series[str] = pa.Field(coerce=True)
    sweep_id: Series[str] = pa.Field(coerce=True)
    host: Series[str] = pa.Field(coerce=True)
    hardware_class: Series[str] = pa.Field(coerce=True)
    concurrency: Series[pd.Int64Dtype] = pa.Field(ge=1, coerce=True)
    context: Series[pd.Int64Dtype] = pa.Field(ge=1, **_KIND)
    repeat: Series[pd.Int64Dtype] = pa.Field(ge=1, coerce=True)
    simulated: Series[bool] = pa.Field(coerce=True)

    class Config:
        """Columns that are asked for by name come and go; those above are always there."""

        strict = False


class Trials(Keyed):
    """One service life: a claim and, where there is one, its verdict."""

    trial_id: Series[str] = pa.Field(unique=True, coerce=True)
    sweep_id: Series[str] = pa.Field(coerce=True)
    item_id: Series[str] = pa.Field(coerce=True)
    purpose: Series[str] = pa.Field(coerce=True)
    ordinal: Series[pd.Int64Dtype] = pa.Field(ge=1, coerce=True)
    host: Series[str] = pa.Field(coerce=True)
    hardware_class: Series[str] = pa.Field(coerce=True)
    engine_build: Series[str] = pa.Field(**_KIND)
    model: Series[str] = pa.Field(**_KIND)
    driver: Series[str] = pa.Field(**_KIND)
    dialect: Series[str] = pa.Field(coerce=True)
    seq: Series[pd.Int64Dtype] = pa.Field(ge=0, coerce=True)
    status: Series[str] = pa.Field(coerce=True)
    class_: Series[str] = pa.Field(alias="class", **_KIND)
    phase: Series[str] = pa.Field(**_KIND)
    step: Series[str] = pa.Field(**_KIND)
    kind: Series[str] = pa.Field(**_KIND)
    effect: Series[str] = pa.Field(**_KIND)
    AL: Series[float] = pa.Field(ge=0, **_KIND)
    first_error: Series[str] = pa.Field(**_KIND)
    rank: Series[pd.Int64Dtype] = pa.Field(**_KIND)
    captured_bs: Series[pd.Int64Dtype] = pa.Field(**_KIND)
    advice: Series[str] = pa.Field(**_KIND)
    evidence: Series[str] = pa.Field(**_KIND)
    engine: Series[str] = pa.Field(**_KIND)
    simulated: Series[bool] = pa.Field(coerce=True)
    extrapolated: Series[bool] = pa.Field(coerce=True)
    started_at: Series[str] = pa.Field(coerce=True)
    finished_at: Series[str] = pa.Field(**_KIND)
    restart_s: Series[float] = pa.Field(**_KIND)
    ready_s: Series[float] = pa.Field(**_KIND)
    load_s: Series[float] = pa.Field(**_KIND)
    total_s: Series[float] = pa.Field(**_KIND)
    latest: Series[bool] = pa.Field(coerce=True)

    class Config:
        """Throughput columns (`tok_s_c8`) and further ones follow."""

        strict = False


class Events(pa.DataFrameModel):
    """One failure of one Ansible task, the last word of each chain of revisions."""

    sweep_id: Series[str] = pa.Field(coerce=True)
    at: Series[str] = pa.Field(coerce=True)
    host: Series[str] = pa.Field(coerce=True)
    kind: Series[str] = pa.Field(isin=["failed", "unreachable", "retry", "item_failed"], coerce=True)
    task: Series[str] = pa.Field(coerce=True)
    msg: Series[str] = pa.Field(coerce=True)
    class_: Series[str] = pa.Field(alias="class", **_KIND)
    phase: Series[str] = pa.Field(**_KIND)
    trial_id: Series[str] = pa.Field(**_KIND)

    class Config:
        """Nothing else is read of events."""

        strict = True


class Cells(Keyed):
    """One cell of one hardware class and engine build, measured or implied."""

    hardware_class: Series[str] = pa.Field(coerce=True)
    engine_build: Series[str] = pa.Field(**_KIND)
    state: Series[str] = pa.Field(isin=STATES, coerce=True)
    reason: Series[str] = pa.Field(coerce=True)
    trials: Series[pd.Int64Dtype] = pa.Field(ge=0, coerce=True)
    status: Series[str] = pa.Field(**_KIND)
    class_: Series[str] = pa.Field(alias="class", **_KIND)
    phase: Series[str] = pa.Field(**_KIND)
    kind: Series[str] = pa.Field(**_KIND)
    AL: Series[float] = pa.Field(**_KIND)
    tok_s: Series[float] = pa.Field(**_KIND)
    extrapolated: Series[bool] = pa.Field(coerce=True)
    simulated: Series[bool] = pa.Field(coerce=True)

    class Config:
        """A cell has these columns and no other."""

        strict = True
