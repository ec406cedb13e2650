"""Where in its life the engine was: phases from the markers that its versions print."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator

from treeline.signatures.entries import Entry
from treeline.signatures.journal import Journal

ORDER = ("args", "dist_init", "weights", "kv_pool", "graph_capture", "http", "warmup", "serving", "shutdown")

# Wordings of 0.4.0 .. 0.5.23. Loading and capture repeat (draft model, several ranks): each time counts.
_LOADING: tuple[tuple[str, str], ...] = (
    ("Init torch distributed begin", "dist_init"),
    ("Init torch distributed ends", "dist_init"),
    ("sglang is using nccl", "dist_init"),
    ("Load weight begin", "weights"),
    ("Load weight end", "kv_pool"),
)
_CAPTURE_BEGIN = re.compile(r"Capture (?:\w+ )*(?:cuda|CUDA) graph begin")
# From here on the service only moves forward, so the first occurrence decides.
_SERVING: tuple[tuple[str, str], ...] = (
    ("max_total_num_tokens=", "http"),
    ("Started server process", "http"),
    ("model_info HTTP/1.1", "warmup"),
    ("The server is fired up and ready", "serving"),
    ("SIGTERM received", "shutdown"),
    ("Gracefully exiting", "shutdown"),
)
_STOPPING = ("Stopping ", "shutdown")

_CAPTURE_BAR = "Capturing batches (bs="
_BAR_BS = re.compile(r"Capturing batches \(bs=(\d+)")
_CAPTURE_END = re.compile(r"Capture (?:\w+ )*(?:cuda|CUDA) graph end")
_WIDTH = re.compile(
    r"Capture (?P<what>(?:\w+ )*)(?:cuda|CUDA) graph begin.*\bnum_tokens_per_(?:req|bs)=(?P<width>\d+)"
)


class Timeline:
    """The phases of one service life, by byte offset in its journal."""

    def __init__(self, journal: Journal, encoded: list[Entry]) -> None:
        """Read the markers of a journal.

        encoded: entries whose text cannot be found in the raw journal (byte arrays, joined pieces); they
        are searched one by one.
        """
        found = list(_loading_marks(journal)) + list(_serving_marks(journal, encoded))
        for entry in encoded:
            hits = [phase for marker, phase in _LOADING if marker in entry.message]
            found += [(entry.offset, phase, entry.pid) for phase in hits]
        self._offsets: list[int] = []
        self._phases: list[str] = []
        self._pids: list[str | None] = []
        for offset, phase, pid in sorted(found, key=lambda mark: mark[0]):
            previous = self._phases[-1] if self._phases else "args"
            # Once the scheduler is up a late line of another rank does not take the service back.
            if ORDER.index(previous) >= ORDER.index("http") and ORDER.index(phase) <= ORDER.index(previous):
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
        phase = self._phases[index - 1] if index else "args"
        if phase == "kv_pool" and pid is not None:
            # Ranks end loading one after the other: one that has not said so is still loading.
            own = [self._phases[at] for at in range(index) if self._pids[at] == pid]
            return "weights" if own and own[-1] == "weights" else phase
        return phase

    def reached(self) -> str:
        """Return the last phase reached."""
        return self._phases[-1] if self._phases else "args"


def _loading_marks(journal: Journal) -> Iterator[tuple[int, str, str | None]]:
    for marker, phase in _LOADING:
        for entry in journal.entries_with(marker):
            if marker in entry.message:
                yield entry.offset, phase, entry.pid
    for entry in journal.entries_with(" graph begin"):
        if _CAPTURE_BEGIN.search(entry.message):
            yield entry.offset, "graph_capture", entry.pid


def _serving_marks(journal: Journal, encoded: list[Entry]) -> Iterator[tuple[int, str, str | None]]:
    for marker, phase in _SERVING:
        hits = [entry.offset for entry in encoded if marker in entry.message][:1]
        plain = (entry.offset for entry in journal.entries_with(marker) if marker in entry.message)
        hits += [offset for offset in [next(plain, None)] if offset is not None]
        if hits:
            yield min(hits), phase, None
    decode = journal.first_in_full("Decode batch")
    if decode is not None:
        yield decode, "serving", None
    marker, phase = _STOPPING
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


def captured_width(journal: Journal) -> int | None:
    """Return the tokens per request that the target's decode graphs were captured for, where printed.

    A verify capture beats a plain decode capture; captures of the draft and of prefill do not count.
    """
    widths: dict[str, int] = {}
    for entry in journal.entries_with("num_tokens_per_"):
        found = _WIDTH.search(entry.message)
        if found and not {"draft", "prefill", "piecewise"} & set(found["what"].split()):
            widths["verify" if "verify" in found["what"] else "decode"] = int(found["width"])
    return widths.get("verify", widths.get("decode"))
