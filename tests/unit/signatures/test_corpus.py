"""The labelled failure logs: class, phase, other classes, rank and captured batch size of each."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from treeline.signatures import classify_journal

CORPUS = Path(__file__).resolve().parents[2] / "data" / "corpus"
CASES = [json.loads(line) for line in (CORPUS / "cases.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["file"]))
def test_labelled_log(case: dict[str, Any]) -> None:
    verdict = classify_journal(CORPUS / case["file"], alive=None)
    assert (verdict.class_, verdict.phase) == (case["class"], case["phase"])
    assert set(verdict.secondary) == set(case["secondary"])
    assert (verdict.rank, verdict.captured_bs) == (case["rank"], case["captured_bs"])
    if verdict.class_ not in ("ok", "silent_corruption"):
        assert verdict.first_error
        assert verdict.first_error.isprintable()
        assert verdict.first_error_line_no is not None


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["file"]))
def test_the_form_of_the_source_does_not_matter(case: dict[str, Any], tmp_path: Path) -> None:
    content = (CORPUS / case["file"]).read_bytes()
    packed = tmp_path / "journal.gz"
    packed.write_bytes(gzip.compress(content))
    expected = classify_journal(CORPUS / case["file"], alive=None)
    assert classify_journal(packed, alive=None) == expected
    assert classify_journal(content.split(b"\n"), alive=None).class_ == expected.class_


def test_the_evidence_line_is_where_it_says(tmp_path: Path) -> None:
    path = CORPUS / "illegal_address_in_capture.log"
    verdict = classify_journal(path, alive=False)
    assert (
        verdict.first_error == "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
    )
    assert verdict.first_error_line_no is not None
    assert verdict.first_error in path.read_bytes().decode().split("\n")[verdict.first_error_line_no - 1]
    assert verdict.captured_width == 17


def test_a_cut_archive_gives_what_it_holds(tmp_path: Path) -> None:
    packed = gzip.compress((CORPUS / "cublas_in_capture.log").read_bytes())
    path = tmp_path / "journal.jsonl.gz"
    path.write_bytes(packed[: len(packed) * 2 // 3])
    assert classify_journal(path, alive=False).class_ == "cublas_execution_failed"
