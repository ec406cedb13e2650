"""Get at the bytes of a journal, and set the ordinary lines of a busy service aside."""

from __future__ import annotations

import bisect
import re
import zlib
from collections.abc import Iterable
from pathlib import Path

Source = Path | Iterable[str | bytes]

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_CHUNK = 1 << 16  # small enough to stay in the processor's cache while its lines are looked at


def clean(text: str) -> str:
    """Return text without ANSI codes and control characters; carriage returns become line feeds."""
    if not _CONTROL.search(text):
        return text
    return _CONTROL.sub("", _ANSI.sub("", text).replace("\r", "\n").replace("\t", " "))


def read_source(source: Source) -> bytes:
    """Return the bytes of a file (gzip is recognised, also when cut short) or of an iterable of lines.

    Raises OSError when the file cannot be read.
    """
    if isinstance(source, Path):
        content = source.read_bytes()
        return _gunzip(content) if content[:2] == b"\x1f\x8b" else content
    lines = (line.encode("utf-8", "surrogateescape") if isinstance(line, str) else line for line in source)
    return b"\n".join(line.rstrip(b"\n") for line in lines)


def _gunzip(content: bytes) -> bytes:
    """Unpack what can be unpacked: evidence of a machine that died may end in the middle of a member."""
    parts: list[bytes] = []
    while content[:2] == b"\x1f\x8b":
        unpacker = zlib.decompressobj(wbits=31)
        try:
            parts.append(unpacker.decompress(content))
        except zlib.error:
            break
        content = unpacker.unused_data
    return b"".join(parts)


class Thinned:
    """A journal without its ordinary lines.

    Nearly all of a long journal is batch statistics and access lines, which show no class. Leaving them out
    costs one pass; everything after that looks at what is left. An ordinary line that holds an error all the
    same (two processes wrote into one line) is kept.
    """

    def __init__(self, full: bytes) -> None:
        self.full = full
        self._numbers: list[int] = []  # 0-based numbers of the kept lines
        self._chunks: list[tuple[int, int]] = []  # (number of the first line, offset) of each chunk
        kept: list[bytes] = []
        offset = number = 0
        while offset < len(full):
            end = full.find(b"\n", min(offset + _CHUNK, len(full) - 1))
            end = len(full) if end < 0 else end
            lines = full[offset:end].split(b"\n")
            self._chunks.append((number, offset))
            for index, line in [
                (index, line)
                for index, line in enumerate(lines, number)
                if not (
                    b"Decode batch" in line
                    or b"Prefill batch" in line
                    or (b" HTTP/1.1" in line and b"model_info" not in line)
                )
                or b"rror" in line
            ]:
                self._numbers.append(index)
                kept.append(line)
            number += len(lines)
            offset = end + 1
        self.lines = number
        self.data = b"\n".join(kept)

    def line_number(self, offset: int) -> int:
        """Return the 1-based number, in the full journal, of the kept line at an offset in `data`."""
        index = self.data.count(b"\n", 0, offset)
        return self._numbers[index] + 1 if index < len(self._numbers) else self.lines

    def full_offset(self, offset: int) -> int:
        """Return where the kept line at an offset in `data` begins in the full journal."""
        if not self._numbers:
            return 0
        number = self.line_number(offset) - 1
        first, position = self._chunks[bisect.bisect_right(self._chunks, (number, len(self.full))) - 1]
        for _ in range(number - first):
            position = self.full.find(b"\n", position) + 1
        return position

    def thin_offset(self, position: int) -> int:
        """Return the offset in `data` of the first kept line after a position in the full journal."""
        number = self.full.count(b"\n", 0, position)
        wanted = bisect.bisect_right(self._numbers, number)
        offset = 0
        for _ in range(wanted):
            end = self.data.find(b"\n", offset)
            if end < 0:
                return len(self.data)
            offset = end + 1
        return offset
