"""One entry of a journal, from a line of text or of JSON as journald exports it.

MESSAGE may be a byte array (control or non-UTF-8 bytes) or null (too long for the export), and an entry that
was cut (`_LINE_BREAK`) continues in the next entry of the same process.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from treeline.signatures.source import clean

JOURNALD = "systemd-journald"
CUT = frozenset({"line-max", "pid-change"})
"""Values of `_LINE_BREAK` after which the text goes on in the next entry of the process."""

_TEXT_PREFIX = re.compile(
    rb"(?P<at>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[^ ]*"  # short-iso, short-iso-precise
    rb"|[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? [A-Z0-9+:-]{1,6}"  # short-full, with-unit
    rb"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?"  # short, short-precise
    rb"|\d{9,}\.\d+"  # short-unix
    rb"|\[ *\d+\.\d+\]) "  # short-monotonic
    rb"(?P<host>[^\s:]+) (?P<ident>[^\s\[:]+)(?:\[(?P<pid>\d+)\])?: ?"
)
_CONTAINER_STAMP = re.compile(rb"(?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.0-9]*(?:Z|[+-]\d\d:\d\d)) ")
_OF_SYSTEMD = re.compile(
    r"(?:Start(?:ed|ing)|Stopp(?:ed|ing)) \S+\.service\b|\S+\.service: (?:Main process|Failed|Deactivated)"
)
_JSON_FIELD = re.compile(rb'"(?:MESSAGE|_PID|_BOOT_ID|__REALTIME_TIMESTAMP)"\s*:')
_DAY = re.compile(r"^[A-Z][a-z]{2} (?=\d{4}-)")


class Entry(NamedTuple):
    """One journal entry with its message cleaned: no ANSI codes, carriage returns turned into line feeds."""

    offset: int
    """Where it begins: a byte offset, by which entries are in order."""
    message: str
    pid: str | None
    ident: str | None
    kernel: bool
    at: int | None
    """Microseconds since the epoch, where the line carries a full time stamp."""
    line_no: int | None = None
    """1-based number of the line in the source; None for a line of a separate kernel log."""

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
        "unit": "_SYSTEMD_UNIT",
        "about_unit": "UNIT",
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
    unit: Any = None
    about_unit: Any = None
    at: Any = None
    cut: Any = None
    stream: Any = None

    @property
    def kernel(self) -> bool:
        """Whether the kernel wrote it."""
        return first_text(self.transport) == "kernel"


_decode = msgspec.json.Decoder(Raw).decode


def is_json(head: bytes) -> bool:
    """Tell whether a log that begins like this is `journalctl -o json` output."""
    return head.lstrip()[:1] == b"{" and _JSON_FIELD.search(head) is not None


def has_prefix(line: bytes) -> bool:
    """Tell whether a line has the prefix of journal text: time, host and process."""
    return _TEXT_PREFIX.match(line) is not None


def text_entry(line: bytes, offset: int, line_no: int) -> Entry:
    """Return the entry on a line of journal text, or of a bare text without a prefix."""
    prefix = _TEXT_PREFIX.match(line)
    if prefix is None:
        return _bare_entry(line, offset, line_no)
    ident = prefix["ident"].decode("utf-8", "replace")
    pid = prefix["pid"].decode() if prefix["pid"] else None
    message = clean(line[prefix.end() :].decode("utf-8", "replace"))
    kernel = ident == "kernel" and pid is None
    return Entry(offset, message, pid, ident, kernel, microseconds(prefix["at"]), line_no)


def _bare_entry(line: bytes, offset: int, line_no: int) -> Entry:
    """Return the entry on a line without host and process: `journalctl -o cat`, a container's log."""
    stamped = _CONTAINER_STAMP.match(line)
    at = microseconds(stamped["at"]) if stamped else None
    message = clean(line[stamped.end() if stamped else 0 :].decode("utf-8", "replace"))
    if _OF_SYSTEMD.match(message):
        return Entry(offset, message, "1", "systemd", False, at, line_no)
    return Entry(offset, message, None, None, "NVRM: " in message, at, line_no)


def decode_raw(line: bytes) -> Raw | None:
    """Return the fields of a line of JSON; None where it is none (torn, or something else)."""
    try:
        return _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    try:  # text that is not UTF-8 where a byte array should be
        return _decode(line.decode("utf-8", "replace").encode())
    except msgspec.DecodeError:
        return None


def json_entry(raw: Raw, message: str, offset: int, line_no: int) -> Entry:
    """Return the entry of decoded fields, with a message that may be longer than its own."""
    return Entry(
        offset, clean(message), first_text(raw.pid), first_text(raw.ident), raw.kernel, stamp(raw), line_no
    )


def stamp(raw: Raw) -> int | None:
    """Return when an entry was written, in microseconds since the epoch."""
    text = first_text(raw.at)
    return int(text) if text and text.isdigit() else None


def first_text(value: Any) -> str | None:
    """Return a field's value; journald exports a field that occurs more than once as a list."""
    if isinstance(value, list):
        value = value[0] if value else None
    return value if isinstance(value, str) else None


def microseconds(stamp: bytes) -> int | None:
    """Return the time stamp of a text line in microseconds since the epoch; None where it has no date."""
    text = _DAY.sub("", stamp.decode("latin-1"))
    try:
        if text[:1].isdigit() and "-" not in text[:5]:
            return int(float(text) * 1e6)
        if text.endswith((" UTC", " GMT")):
            text = f"{text[:-4]}+00:00"
        return int(datetime.fromisoformat(text).timestamp() * 1e6)
    except ValueError:
        return None


def message_text(value: Any) -> str | None:
    """Return MESSAGE as text: a string, or a list of bytes; None for null and anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        try:
            return bytes(value).decode("utf-8", "replace")
        except (TypeError, ValueError):
            # A repeated field comes as a list of its values.
            parts = [message_text(item) for item in value]
            return "\n".join(part for part in parts if part is not None) or None
    return None
