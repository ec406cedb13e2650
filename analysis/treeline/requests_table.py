"""The single requests of a trial's load as one Parquet table."""

from __future__ import annotations

import gzip
import itertools
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from treeline.jsonl import StoreError, sync_directory

# Rows that are held in memory at a time: a soak writes as many requests as it has time for.
BATCH = 5_000

# Columns that may hold nothing in one load and numbers in the next have one type all the same.
_USUAL = {
    **dict.fromkeys(("context", "status", "tokens", "prompt_tokens", "cached_tokens"), "int"),
    **dict.fromkeys(("verify_calls", "correct_drafts"), "int"),
    **dict.fromkeys(("intended", "sent", "first", "last", "ended"), "float"),
}

_DECODER = msgspec.json.Decoder(dict[str, Any])


def write(source: Path, target: Path, trial_id: str) -> int:
    """Turn ``requests.ndjson.gz`` into ``target``; returns the rows written. No rows make no file.

    A load that was killed leaves a file that breaks off: what can be read of it is kept. Every row gets the
    same columns, floats where a number is one, text where kinds differ. The file is read twice, for its
    columns and for its rows.

    Raises:
        StoreError: the table cannot be written (disk full).
    """
    kinds = _kinds(source)
    if not kinds:
        return 0
    # Imported here: it takes longer than everything else that a record does.
    import pyarrow as pa
    import pyarrow.parquet as pq

    temporary = target.with_name(f".{target.name}.tmp")
    schema = pa.schema([("trial_id", pa.string()), *((name, _type(pa, kinds[name])) for name in kinds)])
    written = 0
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
            rows = _rows(source)
            while batch := list(itertools.islice(rows, BATCH)):
                even = [{"trial_id": trial_id, **_even(row, kinds)} for row in batch]
                writer.write_table(pa.Table.from_pylist(even, schema=schema))
                written += len(batch)
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        temporary.replace(target)
        sync_directory(target.parent)
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"{target} cannot be written: {error}") from error
    finally:
        temporary.unlink(missing_ok=True)
    return written


def _rows(source: Path) -> Iterator[dict[str, Any]]:
    try:
        with gzip.open(source, "rb") as stream:
            for line in stream:
                yield _DECODER.decode(line)
    except (EOFError, gzip.BadGzipFile, zlib.error, msgspec.DecodeError):
        return


def _kinds(source: Path) -> dict[str, set[str]]:
    """Per column, the kinds of its values: bool, int, float, str, numbers, texts or other; none for nulls."""
    kinds: dict[str, set[str]] = {}
    for row in _rows(source):
        for name, value in row.items():
            found = kinds.setdefault(name, {_USUAL[name]} if name in _USUAL else set())
            if value is not None:
                found |= _kind(value)
    return kinds


def _kind(value: Any) -> set[str]:
    if not isinstance(value, list):
        return {type(value).__name__}
    if not value:
        return {"empty"}
    if all(isinstance(one, int | float) and not isinstance(one, bool) for one in value):
        return {"numbers"}
    return {"texts" if all(isinstance(one, str) for one in value) else "other"}


def _type(pa: Any, kinds: set[str]) -> Any:
    """The Arrow type of a column; text where its values are of several kinds."""
    told = kinds - {"empty"}
    if told == {"int", "float"} or told == {"float"}:
        return pa.float64()
    if told == {"int"} and "empty" not in kinds:
        return pa.int64()
    if told == {"bool"} and "empty" not in kinds:
        return pa.bool_()
    if told == {"numbers"}:
        return pa.list_(pa.float64())
    if told == {"texts"} or kinds == {"empty"}:
        return pa.list_(pa.string())
    return pa.string()


def _even(row: dict[str, Any], kinds: dict[str, set[str]]) -> dict[str, Any]:
    return {name: _value(row.get(name), kinds[name]) for name in kinds}


def _value(value: Any, kinds: set[str]) -> Any:
    told = kinds - {"empty"}
    if value is None:
        return None
    if told <= {"int", "float"} and "empty" not in kinds:
        return float(value) if "float" in told else value
    if told in ({"bool"}, {"str"}) and "empty" not in kinds:
        return value
    if told in ({"numbers"}, {"texts"}) or kinds == {"empty"}:
        return [float(one) for one in value] if told == {"numbers"} else value
    return str(value)
