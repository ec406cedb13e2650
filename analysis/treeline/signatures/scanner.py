"""Find many strings in one pass.

Hyperscan looks for all of them at once: its cost does not grow with their number. It has no build for some
processors; then RE2 (one automaton as well, but slower) or, where that is missing too, plain searching takes
its place. What is found is the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Callable, Collection, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol

Engine = Literal["hyperscan", "re2", "plain"]
ENGINES: tuple[Engine, ...] = ("hyperscan", "re2", "plain")
"""Fastest first."""

_KEEP_FROM_S = 0.05  # a database that costs more than this to compile is kept on disk


class Scanner(Protocol):
    """Patterns ready to be looked for."""

    name: Engine
    note: str
    """Why it is not the fastest engine; empty when it is."""

    def scan(self, data: bytes, skip: Collection[int]) -> list[tuple[int, int]]:
        """Return (number of the pattern, end of the match) in order of the ends, but for patterns in `skip`.

        A pattern that occurs more than once in a line may be reported once or more for that line.
        """
        ...


def open_scanner(patterns: Sequence[bytes], engine: Engine | None = None) -> Scanner:
    """Return a scanner for regular expressions, in the fastest engine that this machine has.

    patterns: regular expressions in the syntax that all three engines share; `$` is the end of a line.
    engine: take this one. Raises ImportError when it is not there.
    """
    if engine is not None:
        return _OPENERS[engine](patterns)
    missing = []
    for name in ENGINES:
        try:
            scanner = _OPENERS[name](patterns)
        except ImportError as error:
            missing.append(f"{name} cannot be used ({error})")
            continue
        scanner.note = f"{'; '.join(missing)}: logs are searched with {name}, more slowly" if missing else ""
        return scanner
    raise AssertionError("plain searching needs no library")


# --- Hyperscan ---------------------------------------------------------------------------------------------


class _Hyperscan:
    name: Engine = "hyperscan"

    def __init__(self, patterns: Sequence[bytes]) -> None:
        import hyperscan

        self.note = ""
        self._database = _database(hyperscan, patterns)
        self._scratch = hyperscan.Scratch(self._database)

    def scan(self, data: bytes, skip: Collection[int]) -> list[tuple[int, int]]:
        hits: list[tuple[int, int]] = []

        def hit(number: int, _begin: int, end: int, _flags: int, _context: object) -> None:
            if number not in skip:
                hits.append((number, end))

        self._database.scan(data, match_event_handler=hit, scratch=self._scratch)
        return hits


def _database(hyperscan: Any, patterns: Sequence[bytes]) -> Any:
    """Compile the patterns, or take what an earlier run compiled on the same kind of processor."""
    digest = hashlib.sha256(hyperscan.__version__.encode())
    for pattern in patterns:
        digest.update(len(pattern).to_bytes(4, "big") + pattern)
    kept = cache_file(f"scanner-{digest.hexdigest()[:32]}.hs")
    if kept is not None:
        # Made for another processor or damaged: the library refuses it, and it is compiled anew.
        with contextlib.suppress(OSError, hyperscan.HyperscanError):
            return hyperscan.loadb(kept.read_bytes(), hyperscan.HS_MODE_BLOCK)
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    begun = time.monotonic()
    database.compile(
        expressions=list(patterns),
        ids=list(range(len(patterns))),
        elements=len(patterns),
        flags=hyperscan.HS_FLAG_MULTILINE,
    )
    if kept is not None and time.monotonic() - begun > _KEEP_FROM_S:
        store(kept, hyperscan.dumpb(database))
    return database


# --- RE2 ---------------------------------------------------------------------------------------------------


class _Re2:
    name: Engine = "re2"

    def __init__(self, patterns: Sequence[bytes]) -> None:
        re2 = import_module("re2")  # it ships without types
        self.note = ""
        options = re2.Options()
        options.max_mem = 256 << 20
        options.encoding = re2.Options.Encoding.LATIN1
        options.log_errors = False
        self._any = re2.compile(b"(?m)" + b"|".join(b"(?:%s)" % pattern for pattern in patterns), options)
        self._which = re2.Set.SearchSet(options)
        for pattern in patterns:
            self._which.Add(b"(?m)" + pattern)
        self._which.Compile()

    def scan(self, data: bytes, skip: Collection[int]) -> list[tuple[int, int]]:
        return _by_line(data, skip, self._any.search, lambda line: sorted(self._which.Match(line)))


def _by_line(
    data: bytes,
    skip: Collection[int],
    search: Callable[[bytes, int], Any],
    which: Callable[[bytes], list[int]],
) -> list[tuple[int, int]]:
    """Find the lines that hold anything, and ask which patterns each of them holds."""
    hits: list[tuple[int, int]] = []
    position = 0
    while (found := search(data, position)) is not None:
        begin = data.rfind(b"\n", 0, found.start()) + 1
        end = data.find(b"\n", found.end())
        end = len(data) if end < 0 else end
        hits += [(number, end) for number in which(data[begin:end]) if number not in skip]
        if end + 1 > len(data):
            break
        position = end + 1
    return hits


# --- nothing but Python ------------------------------------------------------------------------------------


class _Plain:
    """One search per string, and expressions one after the other: slow with many classes."""

    name: Engine = "plain"

    def __init__(self, patterns: Sequence[bytes]) -> None:
        self.note = ""
        self._compiled = [re.compile(pattern, re.MULTILINE) for pattern in patterns]
        unescaped = [(number, _fixed(pattern)) for number, pattern in enumerate(patterns)]
        self._fixed = [(number, text) for number, text in unescaped if text is not None]
        self._expressions = [number for number, text in unescaped if text is None]

    def scan(self, data: bytes, skip: Collection[int]) -> list[tuple[int, int]]:
        hits: list[tuple[int, int]] = []
        for number, text in self._fixed:
            position = -1 if number in skip else data.find(text)
            while position >= 0:
                hits.append((number, position + len(text)))
                end = data.find(b"\n", position)
                position = data.find(text, end) if end >= 0 else -1
        for number in self._expressions:
            if number not in skip:
                hits += [(number, found.end()) for found in self._compiled[number].finditer(data)]
        return sorted(hits, key=lambda hit: hit[1])


def _fixed(pattern: bytes) -> bytes | None:
    """Return the string that an expression stands for, None where it is more than a string."""
    text = re.sub(rb"\\([^A-Za-z0-9])", rb"\1", pattern)
    return text if re.escape(text) == pattern else None


_OPENERS: dict[Engine, Callable[[Sequence[bytes]], Scanner]] = {
    "hyperscan": _Hyperscan,
    "re2": _Re2,
    "plain": _Plain,
}


# --- cache -------------------------------------------------------------------------------------------------


def cache_file(name: str) -> Path | None:
    """Return the place of a file in the user's cache; None where there is no home to keep one in."""
    import platformdirs

    try:
        return Path(platformdirs.user_cache_dir("treeline")) / name
    except (OSError, RuntimeError):
        return None


def store(path: Path, content: bytes) -> None:
    """Write a cache file whole or not at all; a read-only home is no reason to fail."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            part.write_bytes(content)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
