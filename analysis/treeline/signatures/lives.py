"""Tell the service lives in one log apart: only the last one counts.

In JSON a life has an invocation id. In text it begins with systemd's `Starting` or `Started`. Lines of other
units may stand between: a start of something else begins a life only when the one before is known to be over,
and in the end a life in which no engine was seen gives way to the one before (see `Lives.go_back`).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from treeline.signatures.entries import JOURNALD, Entry, Raw, first_text, message_text, stamp
from treeline.signatures.evidence import Deaths
from treeline.signatures.life import Life

_STARTS = ("Started ", "Starting ")
_EARLIER = "the line belongs to an earlier service life"
# What systemd also starts on any machine, and what no service is.
_NO_SERVICE = re.compile(
    r"Session \S+ of |User Manager for |User Runtime "
    r"|\S+\.(?:timer|socket|scope|slice|mount|path|target|swap)\b"
)


class Lives:
    """The life that is being read, and how the next one is recognised."""

    def __init__(self, deaths: Callable[[], Deaths], ends: Callable[[int], None]) -> None:
        """Begin with a life of which the start is not known.

        deaths: makes what gathers the exception lines of a life. ends: called with the offset at which the
        present life ends, while it still is the present one.
        """
        self._deaths = deaths
        self._ends = ends
        self._known: set[str] = set()
        self._of_an_engine: Life | None = None
        self.current = Life(deaths())

    def begins_in_text(self, entry: Entry) -> bool:
        """Take a line with systemd's word for a start into account; tell whether another life begins."""
        if not entry.systemd or not entry.message.startswith(_STARTS):
            return False
        verb, _, rest = entry.message.split("\n")[0].partition(" ")
        name = rest.rstrip(". ")
        if _NO_SERVICE.match(name):
            return False
        life = self.current
        if life.engine_seen or life.announced:
            if name == life.name and life.announced and verb == "Started":
                life.announced = False
                return False
            if life.name and name != life.name and not life.over:
                return False
        self._begin(entry.offset, entry.line_no or 1, entry.at, name, announced=verb == "Starting")
        return True

    def is_new(self, raw: Raw) -> bool:
        """Tell whether an entry belongs to a life that was not seen before."""
        if raw.kernel or first_text(raw.ident) == JOURNALD:
            return False
        invocation, unit = self._identity(raw)
        if invocation is None or invocation in self._known:
            return False
        life = self.current
        return not (life.engine_seen and life.name and unit != life.name and not life.over)

    def begins_in_json(self, raw: Raw, offset: int, line_no: int) -> bool:
        """Take an entry into account; tell whether another life begins with it."""
        if not self.is_new(raw):
            life = self.current
            if not life.name and life.invocation is not None and first_text(raw.own) == life.invocation:
                life.name = first_text(raw.unit) or ""
            return False
        invocation, unit = self._identity(raw)
        self._known.add(invocation or "")
        self._begin(offset, line_no, stamp(raw), unit or "", invocation=invocation)
        return True

    def go_back(self) -> None:
        """At the end of the log, return to the last life of an engine if only another unit started after it.

        That a unit is none of ours shows in what it writes, not in its start: a service may go by another
        name in its next life.
        """
        engine, life = self._of_an_engine, self.current
        if engine is not None and life.name != engine.name and not life.engine_seen and not life.matches:
            self.current = engine

    def ours(self, raw: Raw) -> bool:
        """Tell whether an entry belongs to the present life.

        The kernel's lines carry no life: their time decides. journald speaks of the unit (lines that it
        dropped) under its own life. When the writer has gone before journald looks, only the unit is left.
        """
        life = self.current
        if raw.kernel:
            return not life.too_old(stamp(raw))
        if first_text(raw.ident) == JOURNALD:
            return True
        own, about = first_text(raw.own), first_text(raw.about)
        if own is None and about is None:
            unit = first_text(raw.unit)
            return not unit or not life.name or unit == life.name
        return life.invocation is None or life.invocation in (own, about)

    def _identity(self, raw: Raw) -> tuple[str | None, str | None]:
        """Return invocation and unit that an entry shows to have started."""
        own = first_text(raw.own)
        if own is not None:
            return own, first_text(raw.unit)
        about = first_text(raw.about)
        if about is not None and (message_text(raw.message) or "").startswith(_STARTS):
            return about, first_text(raw.about_unit)
        return None, None

    def _begin(
        self,
        offset: int,
        line_no: int,
        at: int | None,
        name: str,
        *,
        announced: bool = False,
        invocation: str | None = None,
    ) -> None:
        self._ends(offset)
        before = self.current
        before.end, before.next_line_no = offset, line_no
        if before.engine_seen:
            self._of_an_engine = before
        self.current = Life(
            self._deaths(),
            start=offset,
            line_no=line_no,
            start_at=at,
            name=name,
            announced=announced,
            invocation=invocation,
        )
        for remark in before.remarks:
            if remark.why == _EARLIER:
                self.current.remarks.add(*remark)
        for match in before.matches:
            self.current.remarks.add(match.signature.id, _EARLIER, match.line, match.entry.line_no)
