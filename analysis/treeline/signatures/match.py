"""Match journal entries against the catalogue."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from treeline.signatures.catalogue import Catalogue, Signature
from treeline.signatures.entries import Entry
from treeline.signatures.journal import Journal

_RANK = re.compile(
    r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?(?: [A-Z]{2,3}\d+)* TP(?P<tp>\d+)|^\[rank(?P<rank>\d+)\]"
)
_NAMED_RANK = re.compile(r"\bRank (\d+) scheduler\b")
_OWN_NAMES = ("python", "sglang", "pt_main_thread")  # names the kernel knows SGLang's processes by
_LOOKED_AT = 2000  # lines of one process that are searched for a rank prefix
EVIDENCE_LENGTH = 500


class Match(NamedTuple):
    """A line that shows a class."""

    signature: Signature
    entry: Entry
    line: str
    """The line of the entry's message, around the match where it is long."""
    pid: str | None
    """The process that the line is about, where it names one."""
    name: str | None


class Matcher:
    """A catalogue ready to match; regular expressions are compiled when their literals first hit."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._signatures = [signature for signature in catalogue.signatures if signature.literals]
        self._never = catalogue.never_evidence
        self._regex: dict[str, list[re.Pattern[str]]] = {}

    def matches(self, entry: Entry) -> Iterator[Match]:
        """Yield what an entry shows, at most one match per class and line."""
        outside = entry.kernel or entry.systemd
        for line in entry.message.split("\n"):
            if any(text in line for text in self._never):
                continue
            for signature in self._signatures:
                if outside and signature.source == "service":
                    continue
                match = self._match(signature, entry, line)
                if match is not None:
                    yield match

    def _match(self, signature: Signature, entry: Entry, line: str) -> Match | None:
        literal = next((text for text in signature.literals if text in line), None)
        if literal is None or any(text in line for text in signature.unless):
            return None
        if not signature.regex:
            return Match(signature, entry, excerpt(line, line.index(literal)), None, None)
        for pattern in self._patterns(signature):
            found = pattern.search(line)
            if found:
                named = found.groupdict()
                shown = excerpt(line, found.start())
                return Match(signature, entry, shown, named.get("pid"), named.get("name"))
        return None

    def _patterns(self, signature: Signature) -> list[re.Pattern[str]]:
        if signature.id not in self._regex:
            self._regex[signature.id] = [re.compile(pattern) for pattern in signature.regex]
        return self._regex[signature.id]


def excerpt(line: str, around: int) -> str:
    """Return at most EVIDENCE_LENGTH characters of a line that hold the place of the match."""
    line = line.rstrip()
    if len(line) <= EVIDENCE_LENGTH:
        return line.strip()
    begin = 0 if around < EVIDENCE_LENGTH // 2 else max(0, min(around - 100, len(line) - EVIDENCE_LENGTH))
    return line[begin : begin + EVIDENCE_LENGTH].strip()


def concerns_unit(journal: Journal, match: Match) -> bool:
    """Tell whether a kernel line is about this unit: not when it names another program and process."""
    if not match.entry.kernel or match.pid is None:
        return True
    if next(journal.of_pid(match.pid), None) is not None:
        return True
    name = (match.name or "").strip()
    return not name or name.startswith(_OWN_NAMES) or journal.has_ident(name)


def rank_of(journal: Journal, entry: Entry, line: str, named_pid: str | None) -> int | None:
    """Return the tensor-parallel rank of the process that an evidence line comes from or names."""
    for text in (line, entry.message):
        found = _RANK.match(text)
        if found:
            return int(found["tp"] or found["rank"])
    for pid in (named_pid, entry.pid):
        if pid is None or pid == "1":
            continue
        for seen, other in enumerate(journal.of_pid(pid)):
            found = _RANK.match(other.message)
            if found:
                return int(found["tp"] or found["rank"])
            if seen >= _LOOKED_AT:
                break
    # The parent names the rank of a scheduler that was killed from outside.
    words = [line] if named_pid is None else [other.message for other in journal.entries_with(" scheduler ")]
    named = {int(rank) for text in words for rank in _NAMED_RANK.findall(text)}
    return named.pop() if len(named) == 1 else None
