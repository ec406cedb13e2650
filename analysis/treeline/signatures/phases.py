"""Where in its life the engine was: phases from the markers that its versions print."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator

from treeline_target import markers

from treeline.signatures.entries import Entry
from treeline.signatures.journal import Journal

_CAPTURE_BAR = "Capturing batches (bs="
_BAR_BS = re.compile(r"Capturing batches \(bs=(\d+)")
_CAPTURE_END = re.compile(r"Capture (?:\w+ )*(?:cuda|CUDA) graph end")


class Timeline:
    """The phases of one service life, by byte offset in its journal."""

    def __init__(self, journal: Journal, encoded: list[Entry]) -> None:
        """Read the markers of a journal.

        encoded: entries whose text cannot be found in the raw journal (byte arrays, joined pieces); they
        are searched one by one.
        """
        found = list(_loading_marks(journal)) + list(_serving_marks(journal, encoded))
        for entry in encoded:
            hits = [phase for marker, phase in markers.LOADING if marker in entry.message]
            hits += ["graph_capture"] if markers.begins_capture(entry.message) else []
            found += [(entry.offset, phase, entry.pid) for phase in hits]
        self._offsets: list[int] = []
        self._phases: list[str] = []
        self._pids: list[str | None] = []
        for offset, phase, pid in sorted(found, key=lambda mark: mark[0]):
            if not markers.moves(self.reached(), phase):
                continue
            self._offsets.append(offset)
            self._phases.append(phase)
            self._pids.append(pid)

    @property
    def seen(self) -> bool:
        """Whether any marker was found."""
        return bool(self._phases)

    def at(self, offset: int, pid: str | None = None) -> str:
        """Return the phase in which the line at an offset was written, by the process that wrote it."""
        index = bisect.bisect_right(self._offsets, offset)
        phase = self._phases[index - 1] if index else markers.PHASES[0]
        if phase == "kv_pool" and pid is not None:
            # Ranks end loading one after the other: one that has not said so is still loading.
            own = [self._phases[at] for at in range(index) if self._pids[at] == pid]
            return "weights" if own and own[-1] == "weights" else phase
        return phase

    def reached(self) -> str:
        """Return the last phase reached."""
        return self._phases[-1] if self._phases else markers.PHASES[0]


def _loading_marks(journal: Journal) -> Iterator[tuple[int, str, str | None]]:
    for marker, phase in markers.LOADING:
        for entry in journal.entries_with(marker):
            if marker in entry.message:
                yield entry.offset, phase, entry.pid
    for entry in journal.entries_with(markers.CAPTURE_BEGIN):
        if markers.begins_capture(entry.message):
            yield entry.offset, "graph_capture", entry.pid


def _serving_marks(journal: Journal, encoded: list[Entry]) -> Iterator[tuple[int, str, str | None]]:
    for marker, phase in markers.SERVING:
        hits = [entry.offset for entry in encoded if marker in entry.message][:1]
        plain = (entry.offset for entry in journal.entries_with(marker) if marker in entry.message)
        hits += [offset for offset in [next(plain, None)] if offset is not None]
        if hits:
            yield min(hits), phase, None
    marker, phase = markers.DECODE
    decode = journal.first_in_full(marker)
    if decode is not None:
        yield decode, phase, None
    marker, phase = markers.STOPPING
    for entry in journal.entries_with(marker):
        if entry.systemd and entry.message.startswith(marker):
            yield entry.offset, phase, None
            return


def captured_bs(journal: Journal, encoded: list[Entry], before: int) -> int | None:
    """Return the batch size whose capture was under way at an offset: of the last progress bar before it.

    encoded: as for Timeline; progress bars hold control characters, so in JSON they are byte arrays.
    Bars of a capture that ended well do not count: the failure then is in the next one.
    """
    entries = [entry for entry in encoded if _CAPTURE_BAR in entry.message]
    entries += journal.entries_with(_CAPTURE_BAR)
    bars = [entry for entry in entries if entry.offset <= before and _BAR_BS.search(entry.message)]
    if not bars:
        return None
    bar = max(bars, key=lambda entry: entry.offset)
    for end in journal.entries_with(" graph end"):
        if bar.offset < end.offset < before and end.pid == bar.pid and _CAPTURE_END.search(end.message):
            return None
    return int(_BAR_BS.findall(bar.message)[-1])


def captured_width(journal: Journal, encoded: list[Entry]) -> int | None:
    """Return the tokens per request that the target's decode graphs were captured for, where printed.

    encoded: as for Timeline. A verify capture beats a plain decode capture; captures of the draft and of
    prefill do not count.
    """
    widths: dict[bool, int] = {}
    for entry in [*journal.entries_with(markers.WIDTH), *encoded]:
        found = markers.captured_width(entry.message)
        if found is not None:
            widths.setdefault(found.verify, found.tokens)
    return widths.get(True, widths.get(False))
