"""Match journal entries against the catalogue, and keep account of what was not taken and why."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from treeline.signatures.catalogue import Catalogue, Signature
from treeline.signatures.entries import Entry

EVIDENCE_LENGTH = 500
NO_REGEX = ", but no regular expression of the class matches"
_MOST_REMARKS = 200


class Match(NamedTuple):
    """A line that shows a class."""

    signature: Signature
    entry: Entry
    line: str
    """The line of the entry's message, around the match where it is long."""
    pid: str | None
    """The process that the line is about, where it names one."""
    name: str | None


class Remark(NamedTuple):
    """A line that holds a string of a class and was not taken for it, and why."""

    class_id: str
    why: str
    line: str
    line_no: int | None


class Remarks:
    """Remarks of one service life: the first line of every class and reason."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], Remark] = {}

    def add(self, class_id: str, why: str, line: str, line_no: int | None) -> None:
        """Keep a remark unless the same was said before."""
        if len(self._kept) < _MOST_REMARKS:
            self._kept.setdefault((class_id, why), Remark(class_id, why, excerpt(line, 0), line_no))

    def __iter__(self) -> Iterator[Remark]:
        return iter(self._kept.values())


class Matcher:
    """A catalogue ready to match; expressions are compiled when a string of their class first hits."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._never = catalogue.never_evidence
        self._regex: dict[str, list[re.Pattern[str]]] = {}

    def matches(
        self, entry: Entry, candidates: Iterable[Signature], remarks: Remarks | None = None
    ) -> Iterator[Match]:
        """Yield what an entry shows of the candidates, at most one match per class and line."""
        candidates = list(candidates)
        if not candidates:
            return
        for line in entry.message.split("\n"):
            never = next((text for text in self._never if text in line), None)
            for signature in candidates:
                literal = next((text for text in signature.literals if text in line), None)
                if literal is None:
                    continue
                match, why = self._match(signature, entry, line, literal, never)
                if match is not None:
                    yield match
                elif remarks is not None:
                    remarks.add(signature.id, why, line, entry.line_no)

    def _match(
        self, signature: Signature, entry: Entry, line: str, literal: str, never: str | None
    ) -> tuple[Match | None, str]:
        if never is not None:
            return None, f"a line with '{never}' is never evidence"
        if (entry.kernel or entry.systemd) and signature.source == "service":
            return None, "the line is of the kernel or of systemd, the class of the service alone"
        excluded = next((text for text in signature.unless if text in line), None)
        if excluded is not None:
            return None, f"'{excluded}' in the line rules the class out"
        if not signature.regex:
            return Match(signature, entry, excerpt(line, line.index(literal)), None, None), ""
        for pattern in self._patterns(signature):
            found = pattern.search(line)
            if found:
                named = found.groupdict()
                shown = excerpt(line, found.start())
                return Match(signature, entry, shown, named.get("pid"), named.get("name")), ""
        return None, f"'{literal}' is there{NO_REGEX}"

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
