"""Put entries together again that journald cut in pieces (`_LINE_BREAK`), process by process."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from treeline.signatures.entries import CUT, Raw, decode_raw, first_text, message_text

_MOST_PIECES = 5000
_LONGEST = 1 << 20  # characters of a message; what comes after is left out


class Whole(NamedTuple):
    """A message put together: the fields of its first piece, the text of all, and where the first stands."""

    raw: Raw
    message: str
    offset: int
    line_no: int


@dataclass
class _Open:
    raw: Raw
    offset: int
    line_no: int
    parts: list[str]
    needle: re.Pattern[bytes] = field(init=False)
    pieces: int = 0

    def __post_init__(self) -> None:
        pid = re.escape((first_text(self.raw.pid) or "").encode())
        self.needle = re.compile(rb'"_PID"\s*:\s*"%s"' % pid)

    def whole(self) -> Whole:
        return Whole(self.raw, "".join(self.parts)[:_LONGEST], self.offset, self.line_no)


class Joins:
    """Messages of which the rest is still to come."""

    def __init__(self) -> None:
        self._open: list[_Open] = []
        self.taken: set[int] = set()
        """Offsets, in the present block and later, of lines that are the rest of an earlier one."""

    def begin(self, raw: Raw, offset: int, line_no: int) -> None:
        """Take the first piece of a message."""
        self._open.append(_Open(raw, offset, line_no, [message_text(raw.message) or ""]))

    def go_on(self, block: bytes, base: int, position: int) -> list[Whole]:
        """Look for further pieces in a block from a position on; return the messages that are whole now.

        base: offset of the block.
        """
        done = [one for one in self._open if self._extend(one, block, base, position)]
        self._open = [one for one in self._open if one not in done]
        return [one.whole() for one in done]

    def give_up(self) -> list[Whole]:
        """Return what is there of messages whose rest never came."""
        rest, self._open = self._open, []
        return [one.whole() for one in rest]

    def _extend(self, one: _Open, block: bytes, base: int, position: int) -> bool:
        for found in one.needle.finditer(block, position):
            begin = block.rfind(b"\n", 0, found.start()) + 1
            end = block.find(b"\n", begin)
            raw = decode_raw(block[begin : end if end >= 0 else None])
            if raw is None or raw.pid != one.raw.pid or raw.stream != one.raw.stream:
                continue
            self.taken.add(base + begin)
            one.parts.append(message_text(raw.message) or "")
            one.pieces += 1
            if first_text(raw.cut) not in CUT or one.pieces >= _MOST_PIECES:
                return True
        return False
