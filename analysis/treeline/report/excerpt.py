"""The few lines of a trial's journal that surround its first error."""

from __future__ import annotations

import gzip
import zlib
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import msgspec

from treeline.plain import clean

BEFORE, AFTER = 4, 12
MAX_BYTES = 64 << 20
"""Of a longer journal only so much is searched: a report must not take minutes."""
MAX_LINE = 300

_DECODER = msgspec.json.Decoder(dict[str, object])


def excerpt(evidence: Path, first_error: str | None) -> list[str]:
    """Return the lines around the first error, or the last ones where it is not found. None kept: no line.

    Texts are cleaned of control characters and cut; they are still log text, to be escaped by who shows them.
    """
    from treeline.evidence import JOURNAL

    wanted = clean(first_error or "").splitlines()[0][:80].strip() if first_error else ""
    before: deque[str] = deque(maxlen=BEFORE + AFTER)
    lines = _messages(evidence / JOURNAL)
    for line in lines:
        if wanted and wanted in line:
            after = [line, *(text for _, text in zip(range(AFTER), lines, strict=False))]
            return [clean(text, MAX_LINE) for text in [*list(before)[-BEFORE:], *after]]
        before.append(line)
    return [clean(text, MAX_LINE) for text in before]


def _messages(path: Path) -> Iterator[str]:
    read = 0
    try:
        with gzip.open(path, "rb") as stream:
            for line in stream:
                read += len(line)
                if read > MAX_BYTES:
                    return
                try:
                    message = _DECODER.decode(line).get("MESSAGE")
                except msgspec.DecodeError:
                    continue
                # A message that is no plain text comes as a list of its bytes.
                if isinstance(message, list):
                    message = bytes(one for one in message if isinstance(one, int) and 0 <= one < 256)
                text = (
                    message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message or "")
                )
                yield from (clean(part, 2000) for part in text.splitlines()[:50])
    except (OSError, EOFError, zlib.error):
        return
