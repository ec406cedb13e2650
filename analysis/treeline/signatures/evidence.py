"""Evidence of a death that no class explains, and of whether there was a death at all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from treeline.signatures.entries import Entry
from treeline.signatures.journal import Journal
from treeline.signatures.match import excerpt

NEEDLES = ("rror", "xception", "terminate called")
"""Strings of which every line that this module looks at holds one."""

_PREFIX = re.compile(r"^(?:\[[^\]]*\]:? ?)+")
_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|OutOfResources)(?=:|$)")
_FATAL_PYTHON = re.compile(r"Fatal Python error: (?!Aborted)")
_TERMINATE = "terminate called after throwing"
_SCHEDULER = "Scheduler hit an exception"
_SAYS_ERROR = re.compile(r"\b(?i:error|fatal): |\b(?:ERROR|FATAL|CRITICAL)\b|Failed at step|panicked at")
_DIED = ("Main process exited", "Failed with result", "Failed to start ")
_TAIL = 30


class Line(NamedTuple):
    """A line worth showing as the reason of a death."""

    entry: Entry
    text: str
    fatal: bool
    """Whether the line's own process dies of it."""
    consequence: bool
    """Whether the line only says that another process has gone."""


class Deaths:
    """Exception lines of one service life, gathered entry by entry."""

    def __init__(self, consequences: Iterable[str]) -> None:
        self._consequences = [re.compile(pattern) for pattern in consequences]
        self._dying: set[str | None] = set()
        self.lines: list[Line] = []
        self.fatal = False
        """Whether any process said that it dies of an error."""

    def look(self, entry: Entry) -> None:
        """Take an entry into account; entries come in order."""
        for text in entry.message.split("\n"):
            if _SCHEDULER in text:
                self._dying.add(entry.pid)
                self.fatal = True
            bare = _PREFIX.sub("", text).strip()
            python = _FATAL_PYTHON.match(bare) is not None
            if python or _TERMINATE in bare:
                self.fatal = True
            if python or _EXCEPTION.match(bare):
                consequence = any(pattern.search(bare) for pattern in self._consequences)
                fatal = python or entry.pid in self._dying
                self.lines.append(Line(entry, excerpt(text, 0), fatal, consequence))


def unexplained(lines: Sequence[Line], explained: set[int]) -> Line | None:
    """Return the last line that a process died of and that no class explains.

    explained: offsets of the entries that show a class.
    """
    found = [line for line in lines if line.fatal and not line.consequence]
    found = [line for line in found if line.entry.offset not in explained]
    return found[-1] if found else None


def last_words(journal: Journal, lines: Sequence[Line], explained: set[int]) -> Line | None:
    """Return the best evidence of a death without a class: what the dead process said last, else systemd."""
    best = unexplained(lines, explained)
    if best is not None:
        return best
    for wanted in ([line for line in lines if not line.consequence], lines):
        if wanted:
            return wanted[-1]
    tail = list(journal.last_entries(_TAIL))
    for entry in tail:
        if not entry.systemd and not entry.kernel and _SAYS_ERROR.search(entry.message):
            return Line(entry, excerpt(entry.message.split("\n")[-1], 0), False, False)
    for entry in reversed(tail):
        if entry.systemd and any(text in entry.message for text in _DIED):
            return Line(entry, excerpt(entry.message, 0), False, True)
    return None


def died(journal: Journal) -> bool:
    """Tell whether systemd says that the unit's main process ended badly or was never started."""
    return any(entry.systemd for text in _DIED for entry in journal.entries_with(text))
