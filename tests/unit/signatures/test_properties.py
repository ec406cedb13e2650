"""What must not change a class: order of the ranks, noise, colours, the end of the log missing."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from logs import ARGS, CAPTURE, DIED, LOADED, STARTED, text
from shuffles import Log, recoloured, reordered, with_noise
from treeline.signatures import classify_journal
from treeline.signatures.catalogue import TIERS, load_catalogue

DATA = Path(__file__).resolve().parents[2] / "data"
QUIET = ("ok", "unknown", "silent_corruption", "spec_disabled")
"""Classes without an error line."""


def labelled() -> list[tuple[str, bytes, dict[str, Any]]]:
    """Every labelled log: its name, its bytes, its label."""
    found = []
    for folder in ("corpus", "heldout"):
        for line in (DATA / folder / "cases.jsonl").read_text(encoding="utf-8").splitlines():
            case = json.loads(line)
            found.append((f"{folder}/{case['file']}", (DATA / folder / case["file"]).read_bytes(), case))
    return found


def from_examples() -> list[tuple[str, bytes, dict[str, Any]]]:
    """A log of two ranks for the first example of every class that can be a first cause."""
    groups = yaml.safe_load((DATA / "signatures" / "examples.yml").read_text(encoding="utf-8"))
    catalogue = load_catalogue()
    found = []
    for group in groups:
        signature = catalogue.by_id(group["class"])
        if signature.tier not in TIERS:
            continue
        example = group["positive"][0]
        early = signature.phases and set(signature.phases) <= {"args"}
        lines = [f"systemd: {STARTED}", ARGS, *([] if early else [*LOADED, CAPTURE])]
        lines += example.get("lines") or [example["line"]]
        lines += [f"systemd: {message}" for message in DIED]
        content = ("\n".join(text(*lines)) + "\n").encode()
        verdict = classify_journal(content.split(b"\n"), alive=None)
        found.append((group["class"], content, {"class": group["class"], "secondary": verdict.secondary}))
    return found


LOGS = labelled() + from_examples()
CAUSED = [log for log in LOGS if log[2]["class"] not in QUIET]
few = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def class_of(lines: list[bytes]) -> str:
    return classify_journal(lines, alive=None).class_


@few
@given(st.sampled_from(LOGS), st.integers(0, 2**32))
def test_the_order_of_the_ranks_does_not_matter(log: tuple[str, bytes, dict[str, Any]], seed: int) -> None:
    name, content, case = log
    assert class_of(reordered(Log(content), random.Random(seed))) == case["class"], name


@few
@given(st.sampled_from(LOGS), st.integers(0, 2**32), st.integers(1, 40))
def test_noise_does_not_matter(log: tuple[str, bytes, dict[str, Any]], seed: int, count: int) -> None:
    name, content, case = log
    assert class_of(with_noise(Log(content), random.Random(seed), count)) == case["class"], name


@few
@given(st.sampled_from(LOGS), st.integers(0, 2**32))
def test_colours_do_not_matter(log: tuple[str, bytes, dict[str, Any]], seed: int) -> None:
    name, content, case = log
    assert class_of(recoloured(Log(content), random.Random(seed))) == case["class"], name


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(CAUSED), st.floats(0, 1), st.floats(0, 1))
def test_a_log_may_end_anywhere(log: tuple[str, bytes, dict[str, Any]], where: float, within: float) -> None:
    """After the first cause the class stays; before it there is none, or one that is truly there."""
    name, content, case = log
    lines = Log(content).lines
    found = classify_journal(lines, alive=None).first_error_line_no
    assert found is not None
    end = int(where * len(lines))
    broken = lines[end][: int(within * len(lines[end]))] if end < len(lines) else b""
    got = class_of([*lines[:end], broken])
    if end >= found and not _needs_rest(lines, found):
        assert got == case["class"], (name, end, found)
    else:
        assert got in {"ok", "unknown", case["class"], *case["secondary"], *_earlier(lines)}, (name, end, got)


def _needs_rest(lines: list[bytes], found: int) -> bool:
    """Whether the evidence line goes on in a later entry."""
    return b"_LINE_BREAK" in lines[found - 1]


def _earlier(lines: list[bytes]) -> set[str]:
    """Classes of earlier service lives: a log that ends in one of them is judged by it."""
    starts = [number for number, line in enumerate(lines) if b"Started " in line]
    return {class_of(lines[:start]) for start in starts if start}


@pytest.mark.parametrize("log", CAUSED, ids=lambda log: str(log[0]))
def test_the_first_cause_is_enough(log: tuple[str, bytes, dict[str, Any]]) -> None:
    """The log ends right after the line that shows the cause."""
    _name, content, case = log
    lines = Log(content).lines
    found = classify_journal(lines, alive=None).first_error_line_no
    assert found is not None
    if not _needs_rest(lines, found):
        assert class_of(lines[:found]) == case["class"]
