"""What the decode lines say about speculation: acceptance lengths, a collapse, speculation silently off."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence

from treeline.signatures.entries import Entry

FLOOR = 1.05
"""An acceptance length at or below this means that nothing is accepted but the bonus token."""
ENOUGH = 3
"""Decode lines at the floor before anything is said; a single early 1.00 is normal."""

_LINE = b"Decode batch"
_ACCEPT = re.compile(rb"accept len: (\d+(?:\.\d+)?)")
_ACCEPT_NOT_BLOCK = re.compile(rb"(?<!block )accept len: (\d+(?:\.\d+)?)")
_BLOCK_ACCEPT = b"block accept len: "
_LINE_LENGTH = 1000
_ALGORITHM = re.compile(r"speculative_algorithm(?:=|'?\"?: ?)['\"]?(?P<name>\w+)")
_TREE = re.compile(r"Initialized .*\btree_budget=(\d+)")


class Decoding:
    """The decode lines of one service life, gathered block by block."""

    def __init__(self) -> None:
        self.lens = array("d")
        self.lines = 0
        self.first: int | None = None
        """Offset of the first decode line."""
        self.last: int | None = None
        self.last_pid: str | None = None
        self.asked: bool | None = None
        """Whether the engine's arguments name a speculative algorithm; None: they were not seen."""
        self.tree_width: int | None = None
        """Verify width that the tree worker says it has."""

    def look(self, data: bytes, base: int, hidden: Sequence[tuple[int, str]]) -> None:
        """Take a block of the log into account.

        base: offset of the block. hidden: decode lines that are byte arrays, with their offsets.
        """
        lines = data.count(_LINE)
        self.lines += lines + len(hidden)
        places = [offset for offset, _text in hidden]
        pattern = _ACCEPT
        if lines:
            first = data.find(_LINE)
            places += [base + first, base + data.rfind(_LINE)]
            # A build prints the second, block-wise length in every line or in none.
            block_wise = data.find(_BLOCK_ACCEPT, first, first + _LINE_LENGTH) >= 0
            pattern = _ACCEPT_NOT_BLOCK if block_wise else _ACCEPT
        if hidden:
            found = [(base + hit.start(), float(hit[1])) for hit in pattern.finditer(data)]
            for offset, text in hidden:
                found += [(offset, float(length)) for length in _ACCEPT_NOT_BLOCK.findall(text.encode())]
            self.lens.extend(length for _offset, length in sorted(found))
        elif lines:
            self.lens.extend(map(float, pattern.findall(data)))
        if places:
            self.first = min(places) if self.first is None else self.first
            self.last = max(places)

    def look_at_arguments(self, entry: Entry) -> None:
        """Take the engine's echo of its arguments into account."""
        found = _ALGORITHM.search(entry.message)
        if found and self.asked is None and not entry.systemd:
            self.asked = found["name"] not in ("None", "null")

    def look_at_tree(self, entry: Entry) -> None:
        """Take the tree worker's own description into account."""
        found = _TREE.search(entry.message)
        if found:
            self.tree_width = int(found[1]) + 1


def collapsed(lens: Sequence[float]) -> bool:
    """Tell whether acceptance was at the floor throughout, or fell to it and did not recover.

    Too few lines say nothing: the answer is then False.
    """
    return len(lens) >= ENOUGH and all(value <= FLOOR for value in lens[-ENOUGH:])


def floor_run(lens: Sequence[float]) -> int:
    """Return how many decode lines at the end are at the floor."""
    run = 0
    for value in reversed(lens):
        if value > FLOOR:
            break
        run += 1
    return run
