"""The engines that search a log: all find the same, the fastest is taken, and its work is kept."""

from __future__ import annotations

import builtins
import importlib
import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from treeline.signatures import classify_journal, scanner
from treeline.signatures.catalogue import load_catalogue
from treeline.signatures.needles import Needles
from treeline.signatures.scanner import ENGINES, open_scanner

CORPUS = Path(__file__).resolve().parents[2] / "data" / "corpus"
PATTERNS = [
    re.escape(b"out of memory"),
    re.escape(b"memory"),
    rb'\w(?:Error|Exception)(?:[:"]|$)',
    rb"x\s*\[",
]


def found_per_line(engine: Any, data: bytes) -> set[tuple[int, int]]:
    """What an engine finds: pattern and number of the line."""
    scanned = open_scanner(PATTERNS, engine).scan(data, ())
    assert scanned == sorted(scanned, key=lambda hit: hit[1])
    return {(number, data.count(b"\n", 0, end)) for number, end in scanned}


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [b"out of memory", b"memory", b"KeyError", b"Error: x", b'OSError"', b"x [", b"", b"\xff "]
        )
    ),
    st.integers(0, 2**32),
)
def test_all_engines_find_the_same(pieces: list[bytes], seed: int) -> None:
    chosen = random.Random(seed)
    data = b"".join(piece + chosen.choice([b"\n", b" ", b""]) for piece in pieces)
    expected = {
        (number, at)
        for at, line in enumerate(data.split(b"\n"))
        for number, pattern in enumerate(PATTERNS)
        if re.search(pattern, line)
    }
    for engine in ENGINES:
        assert found_per_line(engine, data) == expected, engine


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["cublas_in_capture.log", "healthy_byte_arrays.log", "two_lives.log"])
def test_a_verdict_does_not_depend_on_the_engine(engine: Any, name: str) -> None:
    expected = classify_journal(CORPUS / name, alive=None)
    assert classify_journal(CORPUS / name, alive=None, engine=engine) == expected


def without(monkeypatch: pytest.MonkeyPatch, *missing: str) -> None:
    """Make libraries look as if they were not installed."""
    real, real_module = builtins.__import__, importlib.import_module

    def importing(name: str, *rest: Any, **more: Any) -> Any:
        if name in missing:
            raise ImportError(f"No module named '{name}'")
        return real(name, *rest, **more)

    def module(name: str, package: str | None = None) -> Any:
        return importing(name) if name in missing else real_module(name, package)

    monkeypatch.setattr(builtins, "__import__", importing)
    monkeypatch.setattr(scanner, "import_module", module)


@pytest.mark.parametrize(
    ("missing", "taken"), [((), "hyperscan"), (("hyperscan",), "re2"), (("hyperscan", "re2"), "plain")]
)
def test_the_next_engine_takes_over_and_says_why(
    monkeypatch: pytest.MonkeyPatch, missing: tuple[str, ...], taken: str
) -> None:
    without(monkeypatch, *missing)
    opened = open_scanner(PATTERNS)
    assert opened.name == taken
    assert [number for number, _end in opened.scan(b"out of memory", {1})] == [0]
    for name in missing:
        assert f"{name} cannot be used (No module named '{name}')" in opened.note
    assert bool(opened.note) == bool(missing)


def test_a_costly_database_is_kept_and_a_broken_one_is_made_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(scanner, "_KEEP_FROM_S", 0.0)
    open_scanner(PATTERNS, "hyperscan")
    (kept,) = (tmp_path / "treeline").glob("scanner-*.hs")
    before = kept.stat().st_mtime_ns
    assert open_scanner(PATTERNS, "hyperscan").scan(b"memory", ())
    assert kept.stat().st_mtime_ns == before
    kept.write_bytes(b"broken")
    assert open_scanner(PATTERNS, "hyperscan").scan(b"memory", ())
    assert kept.stat().st_size > len(b"broken")
    monkeypatch.setattr(scanner, "_KEEP_FROM_S", 60.0)
    open_scanner([*PATTERNS, b"cheap"], "hyperscan")
    assert len(list((tmp_path / "treeline").glob("scanner-*.hs"))) == 1


def test_every_string_of_the_catalogue_is_looked_for() -> None:
    catalogue = load_catalogue()
    needles = Needles(catalogue)
    for signature in catalogue.signatures:
        for literal in signature.literals:
            assert signature.id in {
                found.id for found in needles.signatures(needles.in_text(f"a {literal} b"))
            }
