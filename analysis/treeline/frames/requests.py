"""Single requests of many loads, aggregated file by file: a hundred million of them never stand in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from treeline.frames.duck import MEMORY_LIMIT, connect
from treeline.jsonl import StoreError
from treeline.stats import ratio_of_sums_interval

BATCH_ROWS = 4_000_000
"""Requests in one query. Their quantiles are exact, so their times stand in memory: 8 bytes each."""

GROUP = ("trial_id", "phase", "concurrency", "context")
COLUMNS = (
    *GROUP,
    "requests",
    "failed",
    "completion_tokens",
    "verify_calls",
    "al",
    "ttft_p50_ms",
    "ttft_p99_ms",
    "e2e_p50_ms",
    "e2e_p99_ms",
)

_NEEDED = {
    "trial_id": "VARCHAR",
    "phase": "VARCHAR",
    "concurrency": "BIGINT",
    "context": "BIGINT",
    "sent": "DOUBLE",
    "first": "DOUBLE",
    "last": "DOUBLE",
    "tokens": "BIGINT",
    "verify_calls": "BIGINT",
    "error": "VARCHAR",
}

_QUERY = """
SELECT {group},
       count(*) AS requests,
       count(error) AS failed,
       CAST(sum(tokens) FILTER (verify_calls > 0) AS DOUBLE) AS completion_tokens,
       CAST(sum(verify_calls) AS DOUBLE) AS verify_calls,
       quantile_cont((first - sent) * 1000, [0.5, 0.99]) AS ttft,
       quantile_cont((last - sent) * 1000, [0.5, 0.99]) AS e2e
FROM rows GROUP BY {group}
"""


_LOTS = 1000
"""What a resample is drawn from: up to so many requests themselves, beyond that as many lots of them."""

_SUMS = """
SELECT {group}, count(*) AS requests,
       CAST(sum(tokens) AS DOUBLE) AS completion_tokens, CAST(sum(verify_calls) AS DOUBLE) AS verify_calls
FROM (SELECT *, row_number() OVER (PARTITION BY {group} ORDER BY sent) % {lots} AS lot FROM rows
      WHERE verify_calls > 0 AND phase = 'point')
GROUP BY {group}, lot
"""


def request_files(folders: Iterable[Path]) -> list[Path]:
    """Return the request tables of sweep folders; one for each trial that sent any."""
    return [path for folder in folders for path in sorted((folder / "requests").glob("*.parquet"))]


def request_summary(
    files: Iterable[Path], *, memory_limit: str = MEMORY_LIMIT, batch_rows: int = BATCH_ROWS
) -> pd.DataFrame:
    """Return COLUMNS, one row for each trial, phase and client key; times in ms from when it was sent.

    A trial's requests stand in one file. Files are aggregated in batches of about ``batch_rows`` requests;
    one larger file is a batch of its own.

    Raises:
        StoreError: a file is no request table.
    """
    found = [_one(batch, memory_limit) for batch in _batches(list(files), batch_rows)]
    if not found:
        return pd.DataFrame(columns=list(COLUMNS))
    return (
        pd.concat(found, ignore_index=True)
        .assign(al=lambda table: table["completion_tokens"] / table["verify_calls"].where(lambda n: n > 0))
        .loc[:, list(COLUMNS)]
        .sort_values(list(GROUP), ignore_index=True)
    )


def al_within_lives(files: Iterable[Path], *, batch_rows: int = BATCH_ROWS) -> pd.DataFrame:
    """Return GROUP, ``requests``, ``al``, ``al_low`` and ``al_high`` of the measured requests of each life.

    The bootstrap interval is about noise among the requests of one life and says nothing about the next life;
    bounds are NaN where there is one request. Requests without verify calls do not count.

    Raises:
        StoreError: a file is no request table.
    """
    query = _SUMS.format(group=", ".join(GROUP), lots=_LOTS)
    found = [_asked(batch, MEMORY_LIMIT, query) for batch in _batches(list(files), batch_rows)]
    rows = []
    for table in found:
        for names, lots in table.groupby(list(GROUP), dropna=False, sort=False):
            al = ratio_of_sums_interval(lots["completion_tokens"].tolist(), lots["verify_calls"].tolist())
            bounds = {"al": al.value, "al_low": al.low, "al_high": al.high}
            rows.append(
                dict(zip(GROUP, names, strict=True)) | {"requests": int(lots["requests"].sum())} | bounds
            )
    frame = pd.DataFrame(rows, columns=[*GROUP, "requests", "al", "al_low", "al_high"])
    bounds_as = dict.fromkeys(("al", "al_low", "al_high"), "float64")
    return frame.astype(bounds_as).sort_values(list(GROUP), ignore_index=True)


def _asked(batch: list[Path], memory_limit: str, query: str) -> pd.DataFrame:
    import duckdb

    with connect(memory_limit) as duck:
        try:
            rows = duck.read_parquet([str(path) for path in batch], union_by_name=True)
            chosen = rows.project(", ".join(_column(name, rows.columns) for name in _NEEDED))
            frame: pd.DataFrame = chosen.query("rows", query).to_arrow_table().to_pandas()
        except duckdb.Error as error:
            named = f"{batch[0]}{f' and {len(batch) - 1} more' if len(batch) > 1 else ''}"
            raise StoreError(f"{named}: {str(error).splitlines()[0]}") from error
    return frame


def _one(batch: list[Path], memory_limit: str) -> pd.DataFrame:
    frame = _asked(batch, memory_limit, _QUERY.format(group=", ".join(GROUP)))
    return frame.drop(columns=["ttft", "e2e"]).assign(
        **{
            f"{name}_{label}_ms": [_at(value, place) for value in frame[name]]
            for name in ("ttft", "e2e")
            for place, label in enumerate(("p50", "p99"))
        }
    )


def _column(name: str, there: list[str]) -> str:
    # A column that held nothing in one load has no type in that file.
    kind = _NEEDED[name]
    return f"CAST({name} AS {kind}) AS {name}" if name in there else f"CAST(NULL AS {kind}) AS {name}"


def _at(values: Any, place: int) -> float:
    return float("nan") if values is None else float(values[place])


def _batches(files: list[Path], batch_rows: int) -> Iterator[list[Path]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    batch: list[Path] = []
    size = 0
    for path in files:
        try:
            rows = pq.read_metadata(path).num_rows
        except (OSError, pa.ArrowException) as error:
            raise StoreError(f"{path} is no request table: {error}") from error
        if batch and size + rows > batch_rows:
            yield batch
            batch, size = [], 0
        batch.append(path)
        size += rows
    if batch:
        yield batch
