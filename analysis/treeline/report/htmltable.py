"""Frames as HTML tables: escaped, sortable, numbers to the right."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from treeline.plain import clean

MAX_ROWS = 500
MAX_TEXT = 400


def html_table(
    frame: pd.DataFrame, names: Mapping[str, str] | None = None, *, max_rows: int = MAX_ROWS
) -> str:
    """Return a frame as a table. Every cell is escaped; a longer frame is cut, and it says so.

    names: columns to show and their headings, in order; None shows all.
    """
    shown = dict(names) if names is not None else {str(name): str(name) for name in frame.columns}
    shown = {name: heading for name, heading in shown.items() if name in frame.columns}
    if frame.empty:
        return '<p class="none">none</p>'
    numbers = {
        name for name in shown if pd.api.types.is_numeric_dtype(frame[name]) and not _is_switch(frame, name)
    }
    head = "".join(
        f'<th scope="col"{_kind(name in numbers)}><button type="button">{html.escape(heading)}</button></th>'
        for name, heading in shown.items()
    )
    rows = []
    for record in frame.head(max_rows)[list(shown)].to_dict("records"):
        cells = "".join(_cell(record[name], name in numbers) for name in shown)
        rows.append(f"<tr>{cells}</tr>")
    left = len(frame) - max_rows
    note = f'<p class="note">The first {max_rows} of {len(frame)} rows.</p>' if left > 0 else ""
    return (
        f'<div class="wide"><table class="sortable"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>{note}"
    )


def _is_switch(frame: pd.DataFrame, name: str) -> bool:
    return pd.api.types.is_bool_dtype(frame[name])


def _kind(number: bool) -> str:
    return ' class="number"' if number else ""


def _cell(value: Any, number: bool) -> str:
    text = cell_text(value)
    sort = f' data-sort="{value}"' if number and text else ""
    return f"<td{_kind(number)}{sort}>{html.escape(text)}</td>"


def cell_text(value: Any) -> str:
    """Return one value for people; what is missing is an empty text."""
    if isinstance(value, list | dict | tuple | np.ndarray):
        return clean(value, MAX_TEXT)
    if value is None or pd.isna(value):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return clean(value, MAX_TEXT)
