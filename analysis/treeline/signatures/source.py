"""Get at the bytes of a log: from a file, a stream or lines, packed or not, in blocks of whole lines.

Nothing is held but one block, so that the size of a log does not matter.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

Source = Path | BinaryIO | Iterable[str | bytes]
"""A file, an open binary stream, or lines."""

_ANSI = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_ANSI_BYTES = re.compile(_ANSI.pattern.encode())
# The same codes where a program other than journalctl wrote the JSON: escaped instead of a byte array.
_ANSI_ESCAPED = re.compile(rb"\\u001[bB](?:\[[0-9;:?]*[ -/]*[@-~]|[@-Z_])")
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_BLOCK = 1 << 18  # small enough to stay in the processor's cache while it is looked at
_PACKED = 1 << 14  # bytes given to a decompressor at once: bounds what one call may unfold to
_LONGEST = 1 << 22  # a longer line is cut: a log is no place for one
_MARK = "\ufeff".encode()


def clean(text: str) -> str:
    """Return text without ANSI codes and control characters; carriage returns become line feeds."""
    if not _CONTROL.search(text):
        return text
    return _CONTROL.sub("", _ANSI.sub("", text).replace("\r", "\n").replace("\t", " "))


def blocks(source: Source) -> Iterator[bytes]:
    """Yield a log in blocks of whole lines, colours taken out.

    gzip, zstd, xz and bzip2 are recognised; an archive that ends too early gives what it holds, as evidence
    of a machine that died may. Raises OSError when a file cannot be read.
    """
    if isinstance(source, Path):
        with source.open("rb") as stream:
            yield from _lines_whole(_unpacked(stream))
    elif hasattr(source, "read"):
        yield from _lines_whole(_unpacked(cast(BinaryIO, source)))
    else:
        yield from _lines_whole(_joined(source))


def _lines_whole(pieces: Iterable[bytes]) -> Iterator[bytes]:
    carry = b""
    first = True
    for piece in pieces:
        if first:
            piece, first = piece.removeprefix(_MARK), False
        end = piece.rfind(b"\n") + 1
        if end:
            yield _colourless(carry + piece[:end])
            carry = piece[end:]
        else:
            carry += piece
        if len(carry) > _LONGEST:
            yield _colourless(carry)
            carry = b""
    if carry:
        yield _colourless(carry)


def _colourless(block: bytes) -> bytes:
    if b"\x1b" in block:
        block = _ANSI_BYTES.sub(b"", block)
    if b"\\" in block and b"\\u001" in block:
        block = _ANSI_ESCAPED.sub(b"", block)
    return block


def _joined(lines: Iterable[str | bytes]) -> Iterator[bytes]:
    parts: list[bytes] = []
    size = 0
    for line in lines:
        raw = _encoded(line) if isinstance(line, str) else line
        parts.append(raw.rstrip(b"\n"))
        size += len(raw)
        if size >= _BLOCK:
            yield b"\n".join([*parts, b""])
            parts, size = [], 0
    if parts:
        yield b"\n".join(parts)


def _encoded(line: str) -> bytes:
    try:
        return line.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half a character, from JSON that was cut
        return line.encode("utf-8", "replace")


# --- archives ----------------------------------------------------------------------------------------------


class _Unpacker(Protocol):
    unused_data: bytes
    eof: bool

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


_Kind = tuple[Callable[[], Any], type[Exception]]
"""What makes an unpacker, and the error by which it says that the archive is damaged."""


def _unpacked(stream: BinaryIO) -> Iterator[bytes]:
    head = stream.read(_BLOCK)
    for magic, kind in _KINDS.items():
        if head.startswith(magic):
            yield from _members(head, stream, kind(), magic)
            return
    if head.startswith(_ZSTD):
        yield from _zstd(head, stream)
        return
    while head:
        yield head
        head = stream.read(_BLOCK)


def _members(head: bytes, stream: BinaryIO, kind: _Kind, magic: bytes) -> Iterator[bytes]:
    """Unpack what can be unpacked, member after member (several archives in one file are one log)."""
    new, damaged = kind
    unpacker = new()
    while head:
        for begin in range(0, len(head), _PACKED):
            data = head[begin : begin + _PACKED]
            while data:
                try:
                    yield from _drained(unpacker, data)
                except (damaged, EOFError):
                    return
                if not unpacker.eof:
                    break
                data = unpacker.unused_data.lstrip(b"\0")
                if data and not data.startswith(magic[: len(data)]):
                    return  # rubbish after the archive
                unpacker = new()
        head = stream.read(_BLOCK)


def _drained(unpacker: _Unpacker, data: bytes) -> Iterator[bytes]:
    """Yield all that a piece of an archive unfolds to, a block at a time."""
    piece = unpacker.decompress(data, _BLOCK)
    while piece:
        yield piece
        if unpacker.eof:
            return
        piece = unpacker.decompress(getattr(unpacker, "unconsumed_tail", b""), _BLOCK)


def _zstd(head: bytes, stream: BinaryIO) -> Iterator[bytes]:
    import zstandard

    whole = io.BufferedReader(_Chained(head, stream), _BLOCK)
    with zstandard.ZstdDecompressor().stream_reader(whole, read_across_frames=True) as reader:
        while True:
            try:
                piece = reader.read(_BLOCK)
            except zstandard.ZstdError:
                return
            if not piece:
                return
            yield piece


class _Chained(io.RawIOBase):
    """Bytes that were read already, and then the stream they came from."""

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        self._head, self._stream = head, stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._head[: len(buffer)] or self._stream.read(len(buffer))
        self._head = self._head[len(buffer) :]
        buffer[: len(piece)] = piece
        return len(piece)


def _gzip() -> _Kind:
    return lambda: zlib.decompressobj(wbits=31), zlib.error


def _xz() -> _Kind:
    import lzma

    return lzma.LZMADecompressor, lzma.LZMAError


def _bzip2() -> _Kind:
    import bz2

    return bz2.BZ2Decompressor, OSError


_KINDS: dict[bytes, Callable[[], _Kind]] = {
    b"\x1f\x8b": _gzip,
    b"\xfd7zXZ\0": _xz,
    b"BZh": _bzip2,
}
_ZSTD = b"\x28\xb5\x2f\xfd"
