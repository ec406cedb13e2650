"""Measurements of many sweeps as one frame, read by column: a million of them are nothing special."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from treeline.frames import schemas
from treeline.frames.duck import connect
from treeline.frames.keycolumns import with_key_texts
from treeline.frames.tail import good_bytes
from treeline.jsonl import StoreError
from treeline.keys import KEY_FIELDS
from treeline.records import Measurement
from treeline.store import MEASUREMENTS

_KEY_TYPE = (
    "STRUCT(budget BIGINT, topk BIGINT, maxreq BIGINT, block_size BIGINT, graphs BOOLEAN,"
    " graph_max_bs BIGINT, attention_backend VARCHAR)"
)
_SQL = {"int": "BIGINT", "float": "DOUBLE", "str": "VARCHAR", "bool": "BOOLEAN"}
# Where a line of an older version lacks the field: the record's own default.
_DEFAULTS = {"repeat": "1", "failed": "0", "cancelled": "0", "complete": "true", "simulated": "false"}
_APART = ("key", "schema_version")
# What every measurement of ours has; a row of somebody else's has not.
_NEEDED = ("trial_id", "budget", "topk", "maxreq", "block_size", "graphs")


def measurements(folders: Iterable[Path], columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Return the measurements of sweep folders: one row for each client key and repeat of each trial.

    Args:
        folders: sweep folders; those without measurements add nothing.
        columns: fields of ``treeline.records.Measurement`` to read besides the identity of the row; None
            reads all. A million rows of a few columns take seconds.

    Times are in ms or s as recorded. Fields that are no plain values (windows, errors, goodput) are JSON
    texts. ``slice`` and ``label`` name the restart key for people.

    Raises:
        StoreError: a file cannot be read, or a line that is not the last one is damaged.
        pandera.errors.SchemaError: values are out of their range.
    """
    wanted = _wanted(columns)
    frame = _read([folder / MEASUREMENTS for folder in folders], wanted)
    return schemas.Measurements.validate(with_key_texts(frame))


def _wanted(columns: Sequence[str] | None) -> list[str]:
    fields = [name for name in Measurement.__struct_fields__ if name not in _APART]
    if columns is None:
        return fields
    unknown = sorted(set(columns) - set(fields))
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: no field of a measurement. Fields: {', '.join(fields)}")
    return [name for name in fields if name in {*columns, *schemas.MEASUREMENT_IDENTITY}]


def _read(files: list[Path], wanted: list[str]) -> pd.DataFrame:
    sizes = {path: good_bytes(path) for path in files if path.is_file()}
    sizes = {path: size for path, size in sizes.items() if size[0]}
    if not sizes:
        return _empty(wanted)
    types = {name: _type(name) for name in wanted} | {"key": _KEY_TYPE}
    select = ", ".join([*(f"key.{name} AS {name}" for name in KEY_FIELDS), *map(_column, wanted)])
    import duckdb

    with tempfile.TemporaryDirectory(prefix="treeline-") as aside, connect() as duck:
        readable = [
            str(_without_tail(path, good, Path(aside) / str(number)) if torn else path)
            for number, (path, (good, torn)) in enumerate(sizes.items())
        ]
        try:
            # One line is one record: what does not fit its type ends the reading, nothing is skipped.
            lines = duck.read_json(
                readable, format="newline_delimited", columns=types, maximum_object_size=1 << 26
            )
            frame: pd.DataFrame = lines.project(select).to_arrow_table().to_pandas()
        except duckdb.Error as error:
            raise StoreError(f"measurements cannot be read: {str(error).splitlines()[0]}") from error
    strangers = int(frame[list(_NEEDED)].isna().any(axis="columns").sum())
    if strangers:
        where = ", ".join(map(str, sizes))
        raise StoreError(
            f"measurements cannot be read: {strangers} of {len(frame)} lines in {where} are no measurements "
            "of a trial (foreign rows stay in a file of their own)"
        )
    return frame


def _without_tail(path: Path, good: int, copy: Path) -> Path:
    """Copy a file as far as it is good; a torn last line would end the reading of the rest."""
    left = good
    with path.open("rb") as source, copy.open("wb") as target:
        while left and (block := source.read(min(left, 1 << 20))):
            target.write(block)
            left -= len(block)
    return copy


def _column(name: str) -> str:
    return f'coalesce("{name}", {_DEFAULTS[name]}) AS "{name}"' if name in _DEFAULTS else f'"{name}"'


def _type(name: str) -> str:
    """The SQL type of a field, by the types that its record declares."""
    declared = str(Measurement.__annotations__[name]).replace(" | None", "")
    return {"list[int]": "BIGINT[]", **_SQL}.get(declared, "VARCHAR" if "Literal" in declared else "JSON")


def _empty(wanted: list[str]) -> pd.DataFrame:
    pandas_types: dict[str, Any] = {
        "BIGINT": "Int64",
        "DOUBLE": "float64",
        "BOOLEAN": "boolean",
        "VARCHAR": "str",
    }
    key_types = dict.fromkeys(KEY_FIELDS, "Int64") | {"graphs": "boolean", "attention_backend": "str"}
    types = key_types | {name: pandas_types.get(_type(name), "object") for name in wanted}
    return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in types.items()})
