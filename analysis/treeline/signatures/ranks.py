"""Which process is which rank, and which processes are the unit's."""

from __future__ import annotations

import re

from treeline.signatures.entries import Entry
from treeline.signatures.match import Match

_RANK = re.compile(
    r"\[\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?(?: [A-Z_]{2,7}\d+)*? TP(?P<tp>\d+)(?= |\])"
    r"|(?:^|[\s(])\[rank(?P<rank>\d+)\]"
)
_NAMED_RANK = re.compile(r"\bRank (\d+) scheduler\b")
_NEAR = 120  # characters at the beginning of a line in which its prefix stands
_OWN_NAMES = ("python", "sglang", "pt_main_thread")  # names the kernel knows SGLang's processes by

TEXT_RANKS = re.compile(rb"\[(\d+)\]: \[\d{4}-[^\]\n]{14,60}? TP(\d+)[ \]]|\[(\d+)\]: \[rank(\d+)\]")
"""Process and rank on a line of journal text."""
JSON_RANKS = re.compile(rb" TP\d+[ \]]|\[rank\d+\]")
"""What a JSON line with a rank holds."""


def rank_in(text: str) -> int | None:
    """Return the rank that a line's prefix tells."""
    if " TP" not in text[:_NEAR] and "[rank" not in text[:_NEAR]:
        return None
    found = _RANK.search(text, 0, _NEAR)
    return int(found["tp"] or found["rank"]) if found else None


class Processes:
    """The processes of one service life, as their lines tell."""

    def __init__(self) -> None:
        self.ranks: dict[str, set[int]] = {}
        self.named: set[int] = set()
        self._idents: set[str] = set()

    def look(self, entry: Entry) -> None:
        """Take note of who wrote an entry."""
        if entry.ident is not None:
            self._idents.add(entry.ident)
        if entry.pid is None or entry.systemd:
            return
        known = self.ranks.setdefault(entry.pid, set())
        rank = rank_in(entry.message)
        if rank is not None:
            known.add(rank)

    def add(self, pid: str, rank: int) -> None:
        """Take note of a process and its rank."""
        self.ranks.setdefault(pid, set()).add(rank)

    def look_for_named(self, entry: Entry) -> None:
        """Take note of the ranks that the parent names when their schedulers are gone."""
        self.named.update(int(rank) for rank in _NAMED_RANK.findall(entry.message))

    def concerns(self, match: Match) -> bool:
        """Tell whether a kernel line is about this unit: not when it names another program and process."""
        if not match.entry.kernel or match.pid is None or match.pid in self.ranks:
            return True
        name = (match.name or "").strip()
        return not name or name.startswith(_OWN_NAMES) or name in self._idents

    def rank_of(self, entry: Entry, line: str, named_pid: str | None) -> int | None:
        """Return the tensor-parallel rank of the process that an evidence line comes from or names."""
        for text in (line, entry.message):
            rank = rank_in(text)
            if rank is not None:
                return rank
        for pid in (named_pid, entry.pid):
            ranks = self.ranks.get(pid or "", set())
            # Where one process relays the lines of all ranks, it says nothing about a line without prefix.
            if len(ranks) == 1:
                return next(iter(ranks))
        named = self.named if named_pid is not None else {int(rank) for rank in _NAMED_RANK.findall(line)}
        return next(iter(named)) if len(named) == 1 else None
