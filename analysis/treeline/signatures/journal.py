"""Read a journal without reading every line: find candidates by fixed strings, decode only those.

Three forms are understood: `journalctl -o json` (one object a line), `journalctl -o short*` text, and bare
text without a prefix (a container's log, a task's stderr). The rules for scoping and joining follow systemd:
MESSAGE may be a byte array (control or non-UTF-8 bytes) or null (too long for the export), and an entry that
was cut (`_LINE_BREAK`) continues in the next entry of the same process.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from treeline.signatures.entries import (
    Entry,
    Raw,
    decode_raw,
    first_text,
    message_text,
    microseconds,
    whole_number,
)
from treeline.signatures.source import Thinned, clean

_TEXT_PREFIX = re.compile(
    rb"(?P<at>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[^ ]*"  # short-iso, short-iso-precise
    rb"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?"  # short, short-precise
    rb"|\d{9,}\.\d+) "  # short-unix
    rb"(?P<host>\S+) (?P<ident>[^\s\[:]+)(?:\[(?P<pid>\d+)\])?: ?"
)
_JSON_FIELD = re.compile(rb'"(?:MESSAGE|_PID|_BOOT_ID|__REALTIME_TIMESTAMP)"(: ?)')
_SUPPRESSED = re.compile(r"Suppressed (\d+) messages from ")
_JOURNALD = "systemd-journald"
_CUT = frozenset({"line-max", "pid-change"})
_HEAD = 8192  # bytes that tell which form a journal has
_MAX_JOIN = 5000  # entries looked through for the rest of a cut one


class Journal:
    """The lines of the last service life in a journal, the ordinary ones left out.

    Offsets are byte offsets into `data`, what is left of the journal; `full` is all of it.
    """

    def __init__(self, full: bytes) -> None:
        self._thinned = Thinned(full)
        self.data = data = self._thinned.data
        head = data[:_HEAD]
        spelled = _JSON_FIELD.search(head) if head.lstrip()[:1] == b"{" else None
        self.json = spelled is not None
        self._colon = b'"' + spelled[1] if spelled else b""
        self.torn: set[int] = set()
        self.start = 0
        self.start_at: int | None = None
        self.invocation: str | None = None
        self._joined: set[int] = set()
        if self.json:
            self.invocation = self._last_invocation()
            if self.invocation:
                self.start = data.rfind(b"\n", 0, data.find(self.invocation.encode())) + 1
        else:
            self.start = self._last_start()
        head = data[self.start : self.start + _HEAD]
        self.prefixed = self.json or any(map(_TEXT_PREFIX.match, head.split(b"\n")))
        self.start_at = self._stamp(self.start)

    # --- lines ---------------------------------------------------------------------------------------

    def candidates(self, needles: Iterable[str]) -> list[int]:
        """Return the offsets of the lines of this life that hold one of the fixed strings, in order."""
        found: set[int] = set()
        wanted = [needle.encode() for needle in needles]
        wanted += [self._field("MESSAGE", b"["), b"_LINE_BREAK"] if self.json else [b"\x1b"]
        for needle in wanted:
            found.update(self.lines_with(needle))
        return sorted(found)

    def lines_with(self, needle: bytes) -> Iterator[int]:
        """Yield the offsets of the lines of this life that hold a fixed string, in order."""
        position = self.data.find(needle, self.start)
        while position >= 0:
            yield self.data.rfind(b"\n", 0, position) + 1
            end = self.data.find(b"\n", position)
            position = self.data.find(needle, end) if end >= 0 else -1

    def entries_with(self, text: str) -> Iterator[Entry]:
        """Yield the entries of this life whose raw line holds a fixed string, in order."""
        for line in self.lines_with(text.encode()):
            entry = self.entry(line)
            if entry is not None:
                yield entry

    def _field(self, name: str, value: bytes) -> bytes:
        """Return how a JSON field with this value (or beginning of one) is spelled in this journal."""
        return b'"' + name.encode() + self._colon + value

    def entry(self, offset: int) -> Entry | None:
        """Return the entry that begins at an offset; None when it belongs to another life or says nothing."""
        line = self._line(offset)
        return self._json_entry(offset, line) if self.json else self._text_entry(offset, line)

    @property
    def full(self) -> bytes:
        """The whole journal, all lives and ordinary lines included."""
        return self._thinned.full

    def full_start(self) -> int:
        """Return the offset in `full` at which this life begins."""
        return self._thinned.full_offset(self.start)

    def first_in_full(self, text: str) -> int | None:
        """Return where, among the kept lines, the first line of this life with a fixed string belongs."""
        position = self.full.find(text.encode(), self.full_start())
        return None if position < 0 else self._thinned.thin_offset(position)

    def line_number(self, offset: int) -> int:
        """Return the 1-based number of a line in the source."""
        return self._thinned.line_number(offset)

    def line_count(self) -> int:
        """Return how many lines this life has."""
        begin = self.full_start()
        unfinished = len(self.full) > begin and not self.full.endswith(b"\n")
        return self.full.count(b"\n", begin) + unfinished

    def lost_lines(self) -> int:
        """Return how many lines are known to be missing: too long, unprintable, torn, or dropped."""
        unread = self._field("MESSAGE", b"null") if self.json else b"B blob data]"
        lost = len(self.torn) + sum(1 for _ in self.lines_with(unread))
        for entry in self.entries_with("Suppressed "):
            dropped = _SUPPRESSED.match(entry.message)
            lost += int(dropped[1]) if dropped and entry.ident == _JOURNALD else 0
        return lost

    def last_entries(self, count: int) -> Iterator[Entry]:
        """Yield the last entries of this life, newest first."""
        end = len(self.data)
        while count > 0 and end > self.start:
            begin = self.data.rfind(b"\n", self.start, end - 1) + 1 if end > self.start + 1 else self.start
            begin = max(begin, self.start)
            entry = self.entry(begin)
            if entry is not None:
                yield entry
            count -= 1
            end = begin

    def _line(self, offset: int) -> bytes:
        end = self.data.find(b"\n", offset)
        return self.data[offset : end if end >= 0 else None]

    def hides_text(self, offset: int) -> bool:
        """Tell whether the entry at an offset has text that cannot be found in the raw journal."""
        if not self.json:
            return False
        line = self._line(offset)
        return self._field("MESSAGE", b"[") in line or b"_LINE_BREAK" in line

    def _next(self, offset: int) -> int | None:
        end = self.data.find(b"\n", offset)
        return end + 1 if 0 <= end < len(self.data) - 1 else None

    # --- text ----------------------------------------------------------------------------------------

    def _text_entry(self, offset: int, line: bytes) -> Entry | None:
        prefix = _TEXT_PREFIX.match(line)
        if prefix is None:
            return Entry(offset, clean(line.decode("utf-8", "replace")), None, None, b"NVRM: " in line, None)
        ident = prefix["ident"].decode("utf-8", "replace")
        pid = prefix["pid"].decode() if prefix["pid"] else None
        message = clean(line[prefix.end() :].decode("utf-8", "replace"))
        at = microseconds(prefix["at"])
        kernel = ident == "kernel" and pid is None
        if kernel and self.too_old(at):
            return None
        return Entry(offset, message, pid, ident, kernel, at)

    def _last_start(self) -> int:
        """Return the offset of the line in which systemd last says that it started the unit, else 0."""
        position = len(self.data)
        while (position := self.data.rfind(b"systemd[1]: Started ", 0, position)) >= 0:
            line = self.data.rfind(b"\n", 0, position) + 1
            prefix = _TEXT_PREFIX.match(self._line(line))
            if prefix and prefix["ident"] == b"systemd":
                return line
        return 0

    def too_old(self, at: int | None) -> bool:
        """Tell whether a kernel line was journalled in this life but belongs to the one before."""
        return at is not None and self.start_at is not None and at < self.start_at

    # --- JSON ----------------------------------------------------------------------------------------

    def _raw(self, offset: int) -> Raw | None:
        try:
            return decode_raw(self._line(offset))
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None

    def _json_entry(self, offset: int, line: bytes) -> Entry | None:
        if offset in self._joined:
            return None
        raw = self._raw(offset)
        if raw is None or not line.strip():
            self.torn.update({offset} if line.strip() else ())
            return None
        kernel = first_text(raw.transport) == "kernel"
        at = whole_number(raw.at)
        if kernel:
            if self.too_old(at):
                return None
        elif first_text(raw.ident) == _JOURNALD:
            pass  # it speaks of the unit (lines it dropped) under its own invocation
        elif self.invocation and self.invocation not in (first_text(raw.own), first_text(raw.about)):
            return None
        message = message_text(raw.message)
        if message is None:
            return None
        if first_text(raw.cut) in _CUT:
            message += self._rest(offset, raw)
        return Entry(offset, clean(message), first_text(raw.pid), first_text(raw.ident), kernel, at)

    def _rest(self, offset: int, cut: Raw) -> str:
        """Return the message text that continues a cut entry: the next entries of the same process."""
        parts: list[str] = []
        position = self._next(offset)
        for _ in range(_MAX_JOIN):
            if position is None:
                break
            raw = self._raw(position)
            if raw is not None and raw.pid == cut.pid and raw.stream == cut.stream:
                self._joined.add(position)
                parts.append(message_text(raw.message) or "")
                if first_text(raw.cut) not in _CUT:
                    break
            position = self._next(position)
        return "".join(parts)

    def _last_invocation(self) -> str | None:
        """Return the id of the last life: of the unit's last line, or of systemd's start of it if later."""
        end = len(self.data)
        while end > 0:
            begin = self.data.rfind(b"\n", 0, end - 1) + 1
            raw = self._raw(begin)
            if raw is not None:
                if (own := first_text(raw.own)) and first_text(raw.ident) != _JOURNALD:
                    return own
                about = first_text(raw.about)
                if about and str(raw.message).startswith(("Started ", "Starting ")):
                    return about
            end = begin
        return None

    # --- time ----------------------------------------------------------------------------------------

    def offset_at(self, at: int | None) -> int:
        """Return the offset of the first line of this life that is later than a time (microseconds)."""
        low, high = self.start, len(self.data)
        if at is None:
            return high
        while low < high:
            middle = (low + high) // 2
            line = max(self.data.rfind(b"\n", 0, middle) + 1, self.start)
            stamp = self._stamp(line)
            after = self._next(line)
            if stamp is not None and stamp > at:
                high = line
            elif after is None:
                return len(self.data)
            else:
                low = max(after, low + 1)
        return low

    def _stamp(self, offset: int) -> int | None:
        if self.json:
            raw = self._raw(offset)
            return whole_number(raw.at) if raw else None
        prefix = _TEXT_PREFIX.match(self._line(offset))
        return microseconds(prefix["at"]) if prefix else None

    # --- processes -----------------------------------------------------------------------------------

    def of_pid(self, pid: str) -> Iterator[Entry]:
        """Yield the entries of a process in this life, in order."""
        value = f'"{pid}"'.encode()
        for line in self.lines_with(self._field("_PID", value) if self.json else f"[{pid}]: ".encode()):
            entry = self.entry(line)
            if entry is not None and entry.pid == pid:
                yield entry

    def has_ident(self, name: str) -> bool:
        """Tell whether a process of this name wrote lines in this life."""
        value = f'"{name}"'.encode()
        fields = [self._field("SYSLOG_IDENTIFIER", value), self._field("_COMM", value)]
        needles = fields if self.json else [f" {name}[".encode()]
        return any(self.data.find(needle, self.start) >= 0 for needle in needles)
