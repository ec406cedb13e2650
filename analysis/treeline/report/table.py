"""Trials as tables: for the terminal, for Markdown, for CSV."""

from __future__ import annotations

import io
import shutil
from collections.abc import Sequence
from typing import Any

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from treeline.keys import USUAL_BLOCK_SIZE
from treeline.plain import clean
from treeline.report.frame import rate_columns, rate_label

WIDTH = 160
"""Columns of a terminal table where nothing says how wide the terminal is."""
EXTRAPOLATED = "*"
"""Behind the status of a trial whose engine says that its behaviour there is an extrapolation."""

_FIXED = ("budget", "topk", "maxreq", "graphs", "rows", "status", "class", "phase", "AL")
_OPTIONAL = ("block_size", "graph_max_bs", "attention_backend")
_NUMBERS = frozenset({"budget", "topk", "maxreq", "rows", "AL", "block_size", "graph_max_bs"})
_COLOURS = {"ok": "green", "interrupted": "yellow", "running": "cyan", "void": "yellow"}


def csv_table(trials: pd.DataFrame) -> pd.DataFrame:
    """Return trials with the columns of `summary.csv`; key columns that do not vary are left out."""
    columns = [*_FIXED, *rate_columns(trials), "evidence"]
    columns += ["host", "trial_id", "engine", "simulated", "extrapolated", *_varying(trials)]
    table = trials[columns].copy()
    table["graphs"] = table["graphs"].map({True: "on", False: "off"})
    table["AL"] = pd.to_numeric(table["AL"]).round(4)
    for name in rate_columns(trials):
        table[name] = pd.to_numeric(table[name]).round(2)
    return table


def cells(
    trials: pd.DataFrame, *, purpose: bool = False, host: bool = True
) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of a table for people; what is missing is an empty text.

    The column `trial` is the number of the trial in its sweep: the end of its id. A status that is followed
    by EXTRAPOLATED was never observed in the field.
    """
    shown = [*_FIXED, *_varying(trials), *rate_columns(trials), *(["host"] if host else []), "trial_id"]
    if purpose:
        shown.insert(0, "purpose")
    at = shown.index("status")
    names = {"trial_id": "trial"} | {name: rate_label(name) for name in rate_columns(trials)}
    rows = [
        [_cell(name, value) for name, value in zip(shown, row, strict=True)]
        for row in trials[shown].itertuples(index=False, name=None)
    ]
    for row, mark in zip(rows, extrapolated(trials), strict=True):
        row[at] += EXTRAPOLATED if mark else ""
    return [names.get(name, name.replace("_", " ")) for name in shown], rows


def extrapolated(trials: pd.DataFrame) -> list[bool]:
    """Return, for each trial, whether its engine said that its behaviour there is an extrapolation."""
    return [not pd.isna(value) and bool(value) for value in trials["extrapolated"]]


def terminal_table(
    title: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    color: bool,
    width: int | None = None,
    spare: str | None = None,
) -> str:
    """Return a table for a terminal, without trailing blanks.

    width: columns of the terminal (default: what the terminal says, else WIDTH). A wider table is not
    squeezed: a cell that is cut would be worse than a line that wraps.
    spare: the column that is left out where the table is too wide with it.
    """
    asked = width or shutil.get_terminal_size((WIDTH, 0)).columns
    stream = io.StringIO()
    console = Console(
        file=stream,
        width=10_000,
        force_terminal=color,
        color_system="standard" if color else None,
        highlight=False,
    )
    table = _table(header, rows)
    if spare in header and console.measure(table).maximum > asked:
        kept = [at for at, name in enumerate(header) if name != spare]
        table = _table([header[at] for at in kept], [[row[at] for at in kept] for row in rows])
    console.print(Text(title, "bold"))
    console.print(table, width=max(console.measure(table).maximum, min(asked, WIDTH)))
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()).strip("\n")


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in header:
        number = name.replace(" ", "_") in _NUMBERS or name.startswith("tok/s")
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    status = header.index("status") if "status" in header else -1
    for row in rows:
        style = _COLOURS.get(row[status].removesuffix(EXTRAPOLATED), "red") if status >= 0 else ""
        table.add_row(*(Text(cell, style if at == status else "") for at, cell in enumerate(row)))
    return table


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; cells are escaped, so that log text stays text."""
    lines = [f"| {' | '.join(header)} |", f"|{'|'.join(' --- ' for _ in header)}|"]
    lines += [f"| {' | '.join(map(escape_markdown, row))} |" for row in rows]
    return "\n".join(lines)


def escape_markdown(text: str) -> str:
    """Return text that Markdown shows as it is, on one line."""
    plain = " ".join(clean(text).split())
    plain = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for character in "\\`*_|[]":
        plain = plain.replace(character, f"\\{character}")
    return plain


def _varying(trials: pd.DataFrame) -> list[str]:
    """Further key columns that say something here: not the usual block size alone, not empty."""
    usual = {"block_size": [USUAL_BLOCK_SIZE], "graph_max_bs": [], "attention_backend": []}
    return [name for name in _OPTIONAL if list(trials[name].dropna().unique()) != usual[name]]


def _cell(name: str, value: Any) -> str:
    if value is None or value is pd.NA or (isinstance(value, float) and value != value):
        return ""
    if name == "graphs":
        return "on" if value else "off"
    if name == "trial_id":
        return str(value).rpartition("-")[2]
    if name == "AL":
        return f"{value:.2f}"
    if name.startswith("tok_s_"):
        return f"{value:.0f}"
    return clean(value, 100)
