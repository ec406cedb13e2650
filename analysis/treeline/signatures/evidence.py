"""Evidence of a death that no class explains, and of whether there was a death at all."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from treeline.signatures.entries import Entry
from treeline.signatures.match import excerpt
from treeline.signatures.needles import DIED

_PREFIX = re.compile(r"^(?:\[[^\]]*\]:? ?)+")
_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|OutOfResources)(?=:|$)")
_FATAL_PYTHON = re.compile(r"Fatal Python error: (?!Aborted)")
_TERMINATE = "terminate called "
_SCHEDULER = "Scheduler hit an exception"
_SAYS_ERROR = re.compile(r"\b(?i:error|fatal): |\b(?:ERROR|FATAL|CRITICAL)\b|Failed at step|panicked at")
_FIRST = 1000  # exception lines looked at as they come; of more, only the last are
TAIL = 30
"""Lines at the end of a log in which a reason is looked for when nothing else is there."""


class Line(NamedTuple):
    """A line worth showing as the reason of a death."""

    entry: Entry
    text: str
    fatal: bool
    """Whether the line's own process dies of it."""
    bare: str
    """The line without its prefix."""


class Deaths:
    """Exception lines of one service life, gathered entry by entry."""

    def __init__(self, consequences: Iterable[str]) -> None:
        self._consequences = [re.compile(pattern) for pattern in consequences]
        self._dying: dict[str | None, int] = {}
        self._seen = 0
        self._later: deque[Callable[[], Entry | None]] = deque(maxlen=_FIRST)
        self._lines: deque[Line] = deque(maxlen=2 * _FIRST)
        self.fatal = False
        """Whether any process said that it dies of an error."""

    def look(self, entry: Entry) -> None:
        """Take an entry into account; entries come in order."""
        for text in entry.message.split("\n"):
            bare = _PREFIX.sub("", text).strip()
            python = _FATAL_PYTHON.match(bare) is not None
            if _SCHEDULER in text:
                self._dying.setdefault(entry.pid, entry.offset)
            if python or _TERMINATE in bare or _SCHEDULER in text:
                self.fatal = True
            if _TERMINATE in bare:
                self._dying.setdefault(entry.pid, entry.offset)
            if python or _EXCEPTION.match(bare):
                fatal = python or self._dying.get(entry.pid, entry.offset) < entry.offset
                self._lines.append(Line(entry, excerpt(text, 0), fatal, bare))

    def look_lazily(self, entry: Callable[[], Entry | None]) -> bool:
        """Put off an entry that may hold an exception line; False: there were few, look at it now.

        A log can hold millions of them. Of those only the last are of interest, and only at the end.
        """
        self._seen += 1
        if self._seen <= _FIRST:
            return False
        self._later.append(entry)
        return True

    @property
    def lines(self) -> Sequence[Line]:
        """The exception lines, in order."""
        while self._later:
            entry = self._later.popleft()()
            if entry is not None:
                self.look(entry)
        return list(self._lines)

    def is_consequence(self, line: Line) -> bool:
        """Tell whether a line only says that another process has gone."""
        return any(pattern.search(line.bare) for pattern in self._consequences)

    def unexplained(self, explained: Callable[[Entry], bool]) -> Line | None:
        """Return the last line that a process died of and that no class explains.

        explained: whether an entry shows a class.
        """
        found = (line for line in reversed(self.lines) if line.fatal and not self.is_consequence(line))
        return next((line for line in found if not explained(line.entry)), None)

    def last_line(self) -> Line | None:
        """Return the last exception line, best one that does not only say that another process has gone."""
        lines = self.lines
        own = (line for line in reversed(lines) if not self.is_consequence(line))
        return next(own, lines[-1] if lines else None)

    def died_at(self, pid: str | None) -> int | None:
        """Return where a process first said that it dies of an error; None where it did not."""
        return self._dying.get(pid)


def last_words(
    deaths: Deaths, tail: Sequence[Entry], explained: Callable[[Entry], bool]
) -> tuple[Entry, str] | None:
    """Return the best evidence of a death without a class: what the dead process said last, else systemd.

    tail: the last entries of the log, in order. explained: whether an entry shows a class.
    """
    best = deaths.unexplained(explained) or deaths.last_line()
    if best is not None:
        return best.entry, best.text
    for entry in reversed(tail):
        if not entry.systemd and not entry.kernel and _SAYS_ERROR.search(entry.message):
            return entry, excerpt(entry.message.split("\n")[-1], 0)
    for entry in tail:
        if entry.systemd and any(text in entry.message for text in DIED):
            return entry, excerpt(entry.message, 0)
    return None
