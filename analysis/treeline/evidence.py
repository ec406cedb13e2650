"""What a trial left behind on its host, unpacked into the sweep folder.

The archive comes from another machine, so it is treated as untrusted: only plain files under plain names,
and no more than fits the bounds. Secrets that an engine prints are hidden before anything is kept.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from treeline_target import redact

from treeline.jsonl import StoreError, sync_directory

JOURNAL = "journal.jsonl.gz"
KERNEL = "kernel.jsonl.gz"
REQUESTS = "requests.ndjson.gz"

MAX_FILES = 100
MAX_BYTES = 4 * 1024**3
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@:\\-]*")
# A MESSAGE that is not clean UTF-8, such as a line with colours, is exported as a list of byte values.
_BYTE_ARRAY = re.compile(rb'(?<="MESSAGE":)( ?)\[([0-9, ]+)\]')
_PIECE = 1024 * 1024
_DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error)


class EvidenceError(Exception):
    """An archive cannot be used; the message says why. Nothing of it was kept."""


@dataclass(frozen=True)
class Bounds:
    """How many files one archive may have, and how many bytes each of them once unpacked and decompressed."""

    files: int = MAX_FILES
    bytes: int = MAX_BYTES


@dataclass(frozen=True)
class Unpacked:
    """Names of the files that were kept; those in ``cut`` were damaged and hold only what could be read."""

    names: tuple[str, ...]
    cut: tuple[str, ...] = ()


def unpack(archive: Path, folder: Path, bounds: Bounds | None = None) -> Unpacked:
    """Unpack ``archive`` into ``folder``, which appears whole or not at all.

    What already stands at ``folder`` is kept under ``<name>.old-<n>``.

    Raises:
        EvidenceError: it is missing, damaged, too large, or holds something other than plain files.
        StoreError: the results folder cannot be written (disk full).
    """
    part = folder.with_name(f".{folder.name}.part")
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
    except OSError as error:
        raise StoreError(f"{part} cannot be made: {error.strerror}") from error
    try:
        unpacked = _unpack_into(archive, part, bounds or Bounds())
        if folder.exists():
            folder.rename(_free_name(folder))
        part.rename(folder)
        sync_directory(folder.parent)
    except OSError as error:
        raise StoreError(f"{folder} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return unpacked


def _unpack_into(archive: Path, part: Path, bounds: Bounds) -> Unpacked:
    names: list[str] = []
    cut: list[str] = []
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                if member.isdir():
                    continue
                name = _plain_name(member)
                if name in names or len(names) >= bounds.files:
                    raise EvidenceError(f"{archive.name} has {name} twice, or more than {bounds.files} files")
                source = tar.extractfile(member)
                if source is None:
                    raise EvidenceError(f"{archive.name}: {name} is no plain file")
                if not _keep(source, part / name, bounds.bytes):
                    cut.append(name)
                names.append(name)
    except FileNotFoundError as error:
        raise EvidenceError(f"{archive} was not fetched") from error
    except (tarfile.TarError, *_DAMAGED) as error:
        raise EvidenceError(f"{archive.name} is damaged: {error}") from error
    return Unpacked(tuple(names), tuple(cut))


def _plain_name(member: tarfile.TarInfo) -> str:
    name = member.name.removeprefix("./")
    if not member.isreg() or not _NAME.fullmatch(name):
        raise EvidenceError(f"{member.name!r} in the archive is not a plain file with a plain name")
    return name


def _keep(source: IO[bytes], target: Path, limit: int) -> bool:
    """Copy one file with secrets hidden, compressed as it was, and put it on the disk.

    Returns False where its compressed data broke off: what came before is kept.

    Raises:
        EvidenceError: it is larger than ``limit`` bytes.
    """
    whole = True
    with target.open("wb") as raw, ExitStack() as stack:
        plain: IO[bytes] | gzip.GzipFile = source
        sink: IO[bytes] | gzip.GzipFile = raw
        compressed = target.suffix == ".gz"
        if compressed:
            plain = stack.enter_context(gzip.GzipFile(fileobj=source))
            sink = stack.enter_context(gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=6, mtime=0))
        try:
            for piece in _pieces(plain, limit, target.name):
                sink.write(_without_secrets(piece))
        except _DAMAGED:
            if not compressed:
                raise
            whole = False
        stack.close()
        raw.flush()
        os.fsync(raw.fileno())
    return whole


def _without_secrets(line: bytes) -> bytes:
    return _BYTE_ARRAY.sub(_hide_in_bytes, redact.text(line))


def _hide_in_bytes(array: re.Match[bytes]) -> bytes:
    try:
        said = bytes(map(int, array[2].split(b",")))
    except ValueError:
        return array[0]
    shown = redact.text(said)
    return array[0] if shown == said else b"%b[%b]" % (array[1], b",".join(b"%d" % byte for byte in shown))


def _pieces(source: IO[bytes] | gzip.GzipFile, limit: int, name: str) -> Iterator[bytes]:
    """Lines; a line without end comes in pieces, so that no file can fill the memory."""
    total = 0
    while piece := source.readline(_PIECE):
        total += len(piece)
        if total > limit:
            raise EvidenceError(f"{name} in the archive is larger than the {limit} bytes allowed")
        yield piece


def _free_name(folder: Path) -> Path:
    number = 1
    while (name := folder.with_name(f"{folder.name}.old-{number}")).exists():
        number += 1
    return name
