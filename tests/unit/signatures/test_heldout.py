"""Logs in wordings that the catalogue was not written from: how many are understood, none invented."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from treeline.signatures import classify_journal

HELDOUT = Path(__file__).resolve().parents[2] / "data" / "heldout"
CASES = [json.loads(line) for line in (HELDOUT / "cases.jsonl").read_text(encoding="utf-8").splitlines()]
CLASS_FLOOR = 0.95
PHASE_FLOOR = 0.95
PLACE_FLOOR = 0.90
"""Of the logs that name a rank, or a batch size being captured."""


@pytest.fixture(scope="module")
def verdicts() -> list[tuple[dict[str, Any], Any]]:
    return [(case, classify_journal(HELDOUT / case["file"], alive=None)) for case in CASES]


def test_classes(verdicts: list[tuple[dict[str, Any], Any]]) -> None:
    missed = {case["file"]: verdict.class_ for case, verdict in verdicts if verdict.class_ != case["class"]}
    assert len(missed) <= (1 - CLASS_FLOOR) * len(CASES), missed


def test_phases(verdicts: list[tuple[dict[str, Any], Any]]) -> None:
    missed = {case["file"]: verdict.phase for case, verdict in verdicts if verdict.phase != case["phase"]}
    assert len(missed) <= (1 - PHASE_FLOOR) * len(CASES), missed


@pytest.mark.parametrize("name", ["rank", "captured_bs"])
def test_places(verdicts: list[tuple[dict[str, Any], Any]], name: str) -> None:
    known = [(case, verdict) for case, verdict in verdicts if case[name] is not None]
    missed = {
        case["file"]: getattr(verdict, name)
        for case, verdict in known
        if getattr(verdict, name) != case[name]
    }
    assert len(known) >= 5
    assert len(missed) <= (1 - PLACE_FLOOR) * len(known), missed


@pytest.mark.parametrize("label", ["ok", "unknown"])
def test_nothing_is_invented(verdicts: list[tuple[dict[str, Any], Any]], label: str) -> None:
    of_label = [(case, verdict) for case, verdict in verdicts if case["class"] == label]
    assert len(of_label) >= 3
    assert {case["file"]: verdict.class_ for case, verdict in of_label if verdict.class_ != label} == {}


def test_every_log_has_a_label_and_every_label_a_log() -> None:
    assert sorted(case["file"] for case in CASES) == sorted(path.name for path in HELDOUT.glob("*.log"))
