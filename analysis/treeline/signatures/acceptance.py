"""What the decode lines say about speculation: acceptance lengths, a collapse, speculation silently off."""

from __future__ import annotations

import re
from collections.abc import Sequence

from treeline.signatures.entries import Entry
from treeline.signatures.journal import Journal

FLOOR = 1.05
"""An acceptance length at or below this means that nothing is accepted but the bonus token."""
_ENOUGH = 3  # decode lines at the floor before anything is said; a single early 1.00 is normal

_SAMPLE = 1 << 20  # whether a build prints a second, block-wise length is seen in the last megabyte

_ACCEPT = re.compile(rb"accept len: (\d+(?:\.\d+)?)")
_ACCEPT_NOT_BLOCK = re.compile(rb"(?<!block )accept len: (\d+(?:\.\d+)?)")
_ALGORITHM = re.compile(r"speculative_algorithm(?:=|'?\"?: ?)['\"]?(?P<name>\w+)")


def accept_lens(journal: Journal, encoded: Sequence[Entry]) -> tuple[float, ...]:
    """Return the `accept len` of every decode line of this service life, in order.

    encoded: entries whose text cannot be found in the raw journal (byte arrays).
    """
    pattern = _ACCEPT_NOT_BLOCK if b"block accept len: " in journal.full[-_SAMPLE:] else _ACCEPT
    values = [float(value) for value in pattern.findall(journal.full, journal.full_start())]
    for entry in encoded:
        if "Decode batch" in entry.message:
            values += [float(value) for value in _ACCEPT_NOT_BLOCK.findall(entry.message.encode())]
    return tuple(values)


def decode_lines(journal: Journal) -> int:
    """Return the number of decode lines of this service life."""
    return journal.full.count(b"Decode batch", journal.full_start())


def collapsed(lens: Sequence[float]) -> bool:
    """Tell whether acceptance was at the floor throughout, or fell to it and did not recover.

    Too few lines say nothing: the answer is then False.
    """
    return len(lens) >= _ENOUGH and all(value <= FLOOR for value in lens[-_ENOUGH:])


def floor_run(lens: Sequence[float]) -> int:
    """Return how many decode lines at the end are at the floor."""
    run = 0
    for value in reversed(lens):
        if value > FLOOR:
            break
        run += 1
    return run


def speculation_asked(journal: Journal) -> bool:
    """Tell whether the service's own echo of its arguments names a speculative algorithm."""
    for entry in journal.entries_with("speculative_algorithm"):
        found = _ALGORITHM.search(entry.message)
        if found and not entry.systemd:
            return found["name"] not in ("None", "null")
    return False
