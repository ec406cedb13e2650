"""The single requests of a trial's load as one Parquet table."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from treeline.jsonl import StoreError, sync_directory

_DECODER = msgspec.json.Decoder(dict[str, Any])


def write(source: Path, target: Path, trial_id: str) -> int:
    """Turn ``requests.ndjson.gz`` into ``target``; returns the rows written. No rows make no file.

    A load that was killed leaves a file that breaks off: what can be read of it is kept.

    Raises:
        StoreError: the table cannot be written (disk full).
    """
    rows = [{"trial_id": trial_id, **row} for row in _rows(source)]
    if not rows:
        return 0
    # Imported here: it takes longer than everything else that a record does.
    import pyarrow as pa
    import pyarrow.parquet as pq

    temporary = target.with_name(f".{target.name}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(_even(rows)), temporary, compression="zstd")
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        temporary.replace(target)
        sync_directory(target.parent)
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"{target} cannot be written: {error}") from error
    finally:
        temporary.unlink(missing_ok=True)
    return len(rows)


def _rows(source: Path) -> Iterator[dict[str, Any]]:
    try:
        with gzip.open(source, "rb") as stream:
            for line in stream:
                yield _DECODER.decode(line)
    except (EOFError, gzip.BadGzipFile, zlib.error, msgspec.DecodeError):
        return


def _even(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with the same columns, of one type each: floats where a number is one, else text."""
    names = dict.fromkeys(name for row in rows for name in row)
    makers = {name: _maker([row.get(name) for row in rows]) for name in names}
    return [{name: makers[name](row.get(name)) for name in names} for row in rows]


def _maker(values: list[Any]) -> Any:
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) <= 1:
        return lambda value: value
    if kinds == {int, float}:
        return lambda value: None if value is None else float(value)
    return lambda value: None if value is None else str(value)
