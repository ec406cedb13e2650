"""Read foreign files of any known kind, and write our frames for other tools."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import pandas as pd

from treeline.exchange import inferencex, sglang, vllm
from treeline.exchange.row import ExchangeError, ForeignRow, Source
from treeline.frames.results import Results
from treeline.frames.summaries import gpus, points

READERS: dict[Source, Callable[[Path], list[ForeignRow]]] = {
    "sglang": sglang.read,
    "vllm": vllm.read,
    "inferencex": inferencex.read,
}
Table = Literal["measurements", "trials", "cells"]


def kind_of(path: Path) -> Source:
    """Return which tool a file or folder is of, by what is in it.

    Raises:
        ExchangeError: none of the known ones.
    """
    if path.is_dir():
        return "vllm"
    try:
        head = path.read_bytes()[: 1 << 20]
    except OSError as error:
        raise ExchangeError(f"{path} cannot be read: {error.strerror}") from error
    if b'"output_tput_per_gpu"' in head:
        return "inferencex"
    if b'"output_throughput"' in head and b'"total_token_throughput"' not in head:
        return "sglang"
    raise ExchangeError(
        f"{path}: neither of sglang bench_serving, nor of a vLLM sweep (give its folder), nor of InferenceX. "
        "Name the kind with --format"
    )


def read(paths: Iterable[Path], kind: Source | None = None) -> list[ForeignRow]:
    """Return the foreign rows of files and folders. Raises ExchangeError."""
    return [row for path in paths for row in READERS[kind or kind_of(path)](path)]


def frame(rows: Iterable[ForeignRow]) -> pd.DataFrame:
    """Return foreign rows as a frame, a column for each field, ``foreign`` true in each row."""
    names = list(ForeignRow.__struct_fields__)
    return pd.DataFrame([{name: getattr(row, name) for name in names} for row in rows], columns=names)


def table(results: Results, name: Table) -> pd.DataFrame:
    """Return one of our tables for export; measurements come with the status and class of their trial.

    Trials without any measurement (failed ones) are rows of it, too, without figures.
    """
    if name == "trials":
        return results.trials
    if name == "cells":
        return results.cells
    measured = points(results.measurements, results.trials).rename(columns={"class_": "class"})
    lonely = results.trials[~results.trials["trial_id"].isin(measured["trial_id"])]
    kept = [column for column in measured.columns if column in lonely.columns]
    return pd.concat([measured, lonely[kept]], ignore_index=True) if len(lonely) else measured


def write_table(exported: pd.DataFrame, target: Path) -> None:
    """Write a frame as CSV or Parquet, by the file's ending. Raises ExchangeError."""
    try:
        if target.suffix == ".parquet":
            exported.to_parquet(target, index=False)
        elif target.suffix == ".csv":
            exported.to_csv(target, index=False, lineterminator="\n")
        else:
            raise ExchangeError(f"{target}: the ending says the form: .csv or .parquet")
    except OSError as error:
        raise ExchangeError(f"{target} cannot be written: {error.strerror or error}") from error


def inferencex_rows(results: Results, about: dict[str, Any]) -> list[dict[str, Any]]:
    """Return measurements as InferenceX-like rows; those of failed trials carry their status and class.

    about: overrides of what is derived from the sweep (``hw``, ``model``, ``framework``, ``tp``, ...).
    """
    measured = table(results, "measurements")
    builds = results.trials.set_index("trial_id")[["model", "engine", "engine_build"]].to_dict("index")
    rows = []
    for entry in measured.to_dict("records"):
        build = builds.get(str(entry["trial_id"]), {})
        hardware = str(entry["hardware_class"])
        derived = {
            "hw": re.sub(r"^\s*\d+\s*x\s*", "", hardware),
            "model": build.get("model"),
            "framework": build.get("engine") or "sglang",
            "image": build.get("engine_build"),
            "tp": gpus(hardware),
        }
        rows.append(inferencex.row({str(k): _plain(v) for k, v in entry.items()}, derived | about))
    return rows


def _plain(value: Any) -> Any:
    if isinstance(value, list | dict):
        return value
    if isinstance(value, np.ndarray):
        return value.tolist()
    return None if pd.isna(value) else value.item() if hasattr(value, "item") else value


def write_rows(rows: list[dict[str, Any]], target: Path) -> None:
    """Write rows as a JSON list. Raises ExchangeError."""
    try:
        target.write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=1) + b"\n")
    except OSError as error:
        raise ExchangeError(f"{target} cannot be written: {error.strerror or error}") from error
