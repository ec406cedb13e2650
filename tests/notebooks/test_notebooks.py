"""Every notebook runs, on results and on an empty folder."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from field_sweep import field_notes
from treeline.jsonl import StoreError
from treeline.report.notebooks import FOLDER, NAMES, execute_all


def outputs(path: Path) -> list[Any]:
    return [output for cell in nbformat.read(path, as_version=4).cells for output in cell.get("outputs", [])]


def text(output: Any) -> str:
    data = output.get("data", {})
    return " ".join(str(data.get(kind, "")) for kind in ("text/html", "text/markdown", "text/plain"))


def test_all_run_on_a_sweep(tmp_path: Path) -> None:
    field_notes(tmp_path / "results" / "s")
    written = list(execute_all(tmp_path / "results", tmp_path / "out"))
    assert [path.stem for path in written] == list(NAMES)
    for path in written:
        found = outputs(path)
        assert all(output.output_type != "error" for output in found)
        assert "1 sweep with 7 trials" in text(found[0])
    by_name = {path.stem: " ".join(map(text, outputs(path))) for path in written}
    assert by_name["frontier"].count("<svg") == 3
    assert by_name["throughput"].count("<svg") == 4
    assert "1088 dies, 1152 lives" in by_name["findings"]
    failures = outputs(tmp_path / "out" / "failures.ipynb")
    assert "<script>alert" not in " ".join(str(one.get("data", {}).get("text/html")) for one in failures)
    assert "\x1b" not in by_name["failures"]


def test_all_say_so_where_there_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    for path in execute_all(tmp_path / "results", tmp_path / "out"):
        found = outputs(path)
        assert all(output.output_type != "error" for output in found), path
        assert "No sweep was found in" in text(found[0])
        for output in found:
            assert re.search(r"\b(No|Nothing|none|0 audits)\b", text(output)), (path, text(output)[:200])


def test_they_hold_no_logic_and_no_outputs() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*")) == sorted(NAMES)
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            assert not isinstance(
                node,
                ast.FunctionDef | ast.ClassDef | ast.For | ast.While | ast.If | ast.Try | ast.comprehension,
            ), (path, ast.dump(node)[:80])


def test_a_notebook_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"weather\.py is not there"):
        list(execute_all(tmp_path, tmp_path / "out", names=["weather"]))
