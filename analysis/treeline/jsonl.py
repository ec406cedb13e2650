"""Append-only files of JSON lines that survive crashes, full disks and several writers.

A line counts once its newline is on the disk. What follows the last good line (a write that a crash or a
full disk cut short) is *torn*: readers leave it out and say so, and the next append first moves it to
``<name>.torn-<n>`` beside the file. A damaged line anywhere else is an error, never skipped.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

_BLOCK = 64 * 1024
_FULL = {errno.ENOSPC, errno.EDQUOT}


class StoreError(Exception):
    """A results file cannot be read or written; the message names it and says what is still intact."""


@dataclass(frozen=True)
class Lines:
    """What a file holds: its good lines in order (without newlines), and how many torn bytes follow them."""

    lines: tuple[bytes, ...]
    torn_bytes: int = 0


def read(path: Path) -> Lines:
    """Every good line of ``path``; a missing file holds none.

    Raises:
        StoreError: the file cannot be read, or a line before the last one is no JSON.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Lines(())
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    body, newline, tail = data.rpartition(b"\n")
    lines = body.split(b"\n") if newline else []
    if lines and not is_json(lines[-1]):
        tail = lines.pop() + b"\n" + tail
    for number, line in enumerate(lines, 1):
        if not is_json(line):
            raise StoreError(f"{path}: line {number} is damaged; the lines around it are intact")
    return Lines(tuple(lines), len(tail))


def append(path: Path, line: bytes) -> Path | None:
    """Add one JSON line in one write and wait until it is on the disk. The caller holds the folder's lock.

    Returns the file to which a torn tail of an earlier crash was moved, else None.

    Raises:
        StoreError: nothing was added (disk full, no permission, ...); earlier lines are as they were.
    """
    if b"\n" in line:
        raise ValueError("a JSON line holds no newline")
    try:
        with _opened(path) as handle:
            moved = _set_torn_aside(handle, path)
            _write_whole(handle, line + b"\n")
    except OSError as error:
        raise StoreError(_explain(path, error)) from error
    return moved


def sync_directory(directory: Path) -> None:
    """Put the directory's entries on the disk, so that a file just made is still named after a crash."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_atomic(path: Path, data: bytes) -> None:
    """Replace ``path`` in one step, on the disk when this returns.

    Raises:
        StoreError: it could not be written; what stood there before still stands.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        try:
            with temporary.open("wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        sync_directory(path.parent)
    except OSError as error:
        raise StoreError(_explain(path, error)) from error


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    created = not path.exists()
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        if created:
            sync_directory(path.parent)
        yield handle
    finally:
        os.close(handle)


def _write_whole(handle: int, data: bytes) -> None:
    size = os.fstat(handle).st_size
    try:
        written = os.write(handle, data)
        if written != len(data):
            raise OSError(errno.ENOSPC, f"only {written} of {len(data)} bytes of a line could be written")
        os.fsync(handle)
    except OSError:
        # If this fails too, the cut line stays without its newline and is set aside as torn later.
        os.ftruncate(handle, size)
        raise


def _set_torn_aside(handle: int, path: Path) -> Path | None:
    size = os.fstat(handle).st_size
    start = _end_of_good_lines(handle, size)
    if start == size:
        return None
    number = 1
    while True:
        aside = path.with_name(f"{path.name}.torn-{number}")
        try:
            copy = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            break
        except FileExistsError:
            number += 1
    with os.fdopen(copy, "wb") as stream:
        stream.write(os.pread(handle, size - start, start))
        stream.flush()
        os.fsync(stream.fileno())
    sync_directory(path.parent)
    os.ftruncate(handle, start)
    os.fsync(handle)
    return aside


def _end_of_good_lines(handle: int, size: int) -> int:
    """Offset behind the last line that ends in a newline and is JSON (a crash can leave garbage with one)."""
    end = _after_newline_before(handle, size)
    if end == 0:
        return 0
    start = _after_newline_before(handle, end - 1)
    return end if is_json(os.pread(handle, end - 1 - start, start)) else start


def _after_newline_before(handle: int, end: int) -> int:
    """Offset behind the last newline in front of ``end``; 0 where there is none."""
    while end > 0:
        start = max(0, end - _BLOCK)
        found = os.pread(handle, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def is_json(line: bytes) -> bool:
    """Whether a line is whole: a crash can leave garbage that ends in a newline."""
    try:
        msgspec.json.decode(line, type=msgspec.Raw)
    except msgspec.DecodeError:
        return False
    return True


def _explain(path: Path, error: OSError) -> str:
    why = "the disk is full" if error.errno in _FULL else (error.strerror or str(error))
    return (
        f"{path} cannot be written: {why}. What it held before is intact; "
        "when that is mended, run the same command again to go on"
    )
