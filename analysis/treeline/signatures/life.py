"""What is kept of one service life while its log is read, and what is looked at once it is over."""

from __future__ import annotations

import bisect
import re
from collections import deque
from dataclasses import dataclass, field

from treeline.signatures.acceptance import Decoding
from treeline.signatures.entries import Entry
from treeline.signatures.evidence import Deaths
from treeline.signatures.match import Match, Remarks
from treeline.signatures.phases import Captures, Mark
from treeline.signatures.ranks import Processes

_KEPT = 64  # matches of one class that are kept from the beginning, and as many from the end
_UNIT = re.compile(r"(?P<unit>\S+\.service): ")


@dataclass
class Life:
    """One service life: from systemd's start of the unit, or the beginning of the log, to the next."""

    deaths: Deaths
    start: int = 0
    """Offset at which it begins."""
    line_no: int = 1
    """1-based number of its first line."""
    end: int | None = None
    """Offset at which the next one began; None: it goes on to the end of the log."""
    next_line_no: int | None = None
    """1-based number of the next one's first line."""
    start_at: int | None = None
    """When it began, microseconds since the epoch, where the log tells."""
    name: str = ""
    """Of what systemd says that it started, or the unit of a journal in JSON."""
    invocation: str | None = None
    announced: bool = False
    """Whether systemd has said `Starting`, so that its `Started` begins nothing."""
    over: bool = False
    """Whether systemd has said that it ended."""
    prefixed: bool = False
    """Whether its lines carry the time, host and process of a journal."""

    _first: dict[str, list[Match]] = field(default_factory=dict)
    _last: dict[str, deque[Match]] = field(default_factory=dict)
    decoded_before: dict[int, int] = field(default_factory=dict)
    """Offset of a match -> decode lines before it."""
    remarks: Remarks = field(default_factory=Remarks)
    marks: list[Mark] = field(default_factory=list)
    ready: int | None = None
    """Where the engine says that it is ready."""
    times: list[tuple[int, int]] = field(default_factory=list)
    """(time, offset) of some lines, in order; of several at one time the last."""
    captures: Captures = field(default_factory=Captures)
    decoding: Decoding = field(default_factory=Decoding)
    processes: Processes = field(default_factory=Processes)
    unanswered: list[Entry] = field(default_factory=list)
    """The first and the last health check that the scheduler did not answer."""
    died: bool = False
    """Whether systemd says that the main process ended badly or was never started."""
    tail: list[Entry] = field(default_factory=list)
    """Its last entries."""
    lines: int = 0
    lost: int = 0
    """Lines known to be missing: suppressed, torn, or not stored in a form that can be read."""

    @property
    def matches(self) -> list[Match]:
        """The lines that show a class, in order; of a class with very many, the first and the last."""
        kept = [match for place in (self._first, self._last) for found in place.values() for match in found]
        return sorted(kept, key=lambda match: match.entry.offset)

    def keep(self, match: Match, decoded: int) -> None:
        """Keep a line that shows a class, and how many decode lines came before it."""
        first = self._first.setdefault(match.signature.id, [])
        if len(first) < _KEPT:
            first.append(match)
        else:
            self._last.setdefault(match.signature.id, deque(maxlen=_KEPT)).append(match)
        self.decoded_before[match.entry.offset] = decoded

    def is_about(self, message: str) -> bool:
        """Tell whether a line of systemd is about this life's unit, as far as the unit is known."""
        if not self.name or self.invocation is not None:
            return True
        unit = self.name.split(" ")[0]
        about = _UNIT.match(message)
        if about:
            return about["unit"] == unit or not unit.endswith(".service")
        return self.name in message or (unit.endswith(".service") and unit in message)

    @property
    def engine_seen(self) -> bool:
        """Whether anything shows that an engine wrote lines in this life."""
        return bool(self.marks) or self.decoding.lines > 0 or self.decoding.asked is not None

    def note_time(self, at: int | None, offset: int) -> None:
        """Remember when a line was written."""
        if at is None or (self.times and (at, offset) < self.times[-1]):
            return
        if self.times and at == self.times[-1][0]:
            self.times.pop()
        self.times.append((at, offset))

    def place(self, at: int | None) -> int:
        """Return the offset of the last known line that is not later than a time, at the end for None."""
        if at is None:
            return self.times[-1][1] if self.times else self.start
        index = bisect.bisect_right(self.times, (at, 1 << 62))
        return self.times[index - 1][1] if index else self.start

    def too_old(self, at: int | None) -> bool:
        """Tell whether a kernel line was journalled in this life but belongs to the one before."""
        return at is not None and self.start_at is not None and at < self.start_at
