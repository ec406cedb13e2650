"""Where in its life the engine was: phases from the markers that its versions print."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable
from typing import NamedTuple

from treeline_target import markers

from treeline.signatures.entries import Entry

_BAR_BS = re.compile(r"Capturing batches \(bs=(\d+)")
_CAPTURE_END = re.compile(r"Capture (?:\w+ )*(?:cuda|CUDA) graph end")
_MOST_BARS = 20_000


class Mark(NamedTuple):
    """A line with which a phase begins."""

    offset: int
    phase: str
    pid: str | None


class Timeline:
    """The phases of one service life, by offset in its log."""

    def __init__(self, marks: Iterable[Mark]) -> None:
        self.marks: list[Mark] = []
        for mark in sorted(marks, key=lambda mark: mark.offset):
            if markers.moves(self.reached(), mark.phase):
                self.marks.append(mark)
        self._offsets = [mark.offset for mark in self.marks]

    @property
    def seen(self) -> bool:
        """Whether any marker was found."""
        return bool(self.marks)

    def at(self, offset: int, pid: str | None = None) -> str:
        """Return the phase in which the line at an offset was written, by the process that wrote it."""
        index = bisect.bisect_right(self._offsets, offset)
        phase = self.marks[index - 1].phase if index else markers.PHASES[0]
        if phase == "kv_pool" and pid is not None:
            # Ranks end loading one after the other: one that has not said so is still loading.
            own = [mark.phase for mark in self.marks[:index] if mark.pid == pid]
            return "weights" if own and own[-1] == "weights" else phase
        return phase

    def reached(self) -> str:
        """Return the last phase reached."""
        return self.marks[-1].phase if self.marks else markers.PHASES[0]

    def went_on(self, offset: int, pid: str | None) -> bool:
        """Tell whether the service got further after an offset: the same process, or all of it."""
        there = markers.PHASES.index(self.at(offset, pid))
        for mark in self.marks[bisect.bisect_right(self._offsets, offset) :]:
            reached = markers.PHASES.index(mark.phase)
            all_of_it = markers.PHASES.index("http") <= reached < markers.PHASES.index("shutdown")
            if reached > there and (all_of_it or (mark.pid is not None and mark.pid == pid)):
                return True
        return False


class Captures:
    """Graph captures of one service life: progress, ends, and the width they were made for."""

    def __init__(self) -> None:
        self._bars: list[tuple[int, str | None, int]] = []
        self._ends: list[tuple[int, str | None]] = []
        self._widths: dict[bool, int] = {}
        self._begun: list[tuple[int, int | None]] = []

    def bar(self, entry: Entry) -> None:
        """Take a progress bar into account: its last step counts."""
        steps = _BAR_BS.findall(entry.message)
        if steps and len(self._bars) < _MOST_BARS:
            self._bars.append((entry.offset, entry.pid, int(steps[-1])))

    def begun(self, entry: Entry) -> bool:
        """Take a line into account that may begin a capture; tell whether it does."""
        found = markers.captured_width(entry.message)
        if found is not None:
            self._widths.setdefault(found.verify, found.tokens)
        begins = markers.begins_capture(entry.message)
        if begins:
            self._begun.append((entry.offset, found.tokens if found else None))
        return begins

    def ended(self, entry: Entry) -> None:
        """Take a line into account that may end a capture."""
        if _CAPTURE_END.search(entry.message):
            self._ends.append((entry.offset, entry.pid))

    def batch_size(self, before: int) -> int | None:
        """Return the batch size whose capture was under way at an offset: of the last bar before it.

        Bars of a capture that ended well do not count: the failure then is in the next one.
        """
        bars = [bar for bar in self._bars if bar[0] <= before]
        if not bars:
            return None
        offset, pid, size = max(bars)
        return None if any(offset < end < before and of == pid for end, of in self._ends) else size

    def rows(self, before: int) -> int | None:
        """Return the rows whose capture was under way at an offset: batch size x tokens per request.

        None where either is unknown, or where it was not the target's decode or verify graphs.
        """
        size = self.batch_size(before)
        widths = [width for offset, width in self._begun if offset <= before]
        return size * widths[-1] if size is not None and widths and widths[-1] is not None else None

    def width(self) -> int | None:
        """Return the tokens per request that the target's decode graphs were captured for, where printed.

        A verify capture beats a plain decode capture; captures of the draft and of prefill do not count.
        """
        return self._widths.get(True, self._widths.get(False))
