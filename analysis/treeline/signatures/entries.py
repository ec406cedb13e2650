"""One entry of a journal: the fields that matter, as journald exports them and as the rules need them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import msgspec


class Entry(NamedTuple):
    """One journal entry with its message cleaned: no ANSI codes, carriage returns turned into line feeds."""

    offset: int
    message: str
    pid: str | None
    ident: str | None
    kernel: bool
    at: int | None
    """Microseconds since the epoch, where the line carries a full time stamp."""
    source: str = ""
    """`kernel` for a line of a separate kernel log: its offset is then a place, not a line."""

    @property
    def systemd(self) -> bool:
        """Whether PID 1 speaks about the unit."""
        return self.ident == "systemd" and self.pid == "1"


class Raw(
    msgspec.Struct,
    rename={
        "message": "MESSAGE",
        "pid": "_PID",
        "ident": "SYSLOG_IDENTIFIER",
        "transport": "_TRANSPORT",
        "own": "_SYSTEMD_INVOCATION_ID",
        "about": "INVOCATION_ID",
        "at": "__REALTIME_TIMESTAMP",
        "cut": "_LINE_BREAK",
        "stream": "_STREAM_ID",
    },
):
    """The fields of an exported entry that matter, as they come."""

    message: Any = ""
    pid: Any = None
    ident: Any = None
    transport: Any = None
    own: Any = None
    about: Any = None
    at: Any = None
    cut: Any = None
    stream: Any = None


decode_raw = msgspec.json.Decoder(Raw).decode
"""JSON line to Raw; raises msgspec.DecodeError and UnicodeDecodeError."""


def first_text(value: Any) -> str | None:
    """Return a field's value; journald exports a field that occurs more than once as a list."""
    if isinstance(value, list):
        value = value[0] if value else None
    return value if isinstance(value, str) else None


def whole_number(value: Any) -> int | None:
    """Return a field that holds digits as a number."""
    text = first_text(value)
    return int(text) if text and text.isdigit() else None


def microseconds(stamp: bytes) -> int | None:
    """Return the time stamp of a text line in microseconds since the epoch; None where it has no year."""
    text = stamp.decode("latin-1")
    try:
        if text[:1].isdigit() and "-" not in text[:5]:
            return int(float(text) * 1e6)
        return int(datetime.fromisoformat(text).timestamp() * 1e6)
    except ValueError:
        return None


def message_text(value: Any) -> str | None:
    """Return MESSAGE as text: a string, or a list of bytes; None for null and anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, int) and 0 <= item < 256 for item in value):
        return bytes(value).decode("utf-8", "replace")
    return None
