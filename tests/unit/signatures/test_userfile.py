"""Checking a catalogue file of a user's: line and reason of what is wrong, and what is doubtful."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from treeline.signatures import classify_journal
from treeline.signatures.catalogue import load_catalogue
from treeline.signatures.userfile import Checked, check

GOOD = """\
schema_version: 1
classes:
  - id: moon_phase
    tier: application
    layer: sky
    kind: transient
    literals: ["full moon tonight"]
    advice: Wait.
  - id: tide
    tier: application
    layer: sea
    kind: config
    literals:
      - "the tide is out"
      - "low water"
    regex: ['tide is out|low water at \\d+']
    advice: Swim later.
    examples: ["the tide is out"]
    near_misses: ["low water mark"]
"""


def checked(tmp_path: Path, content: str) -> Checked:
    path = tmp_path / "own.yml"
    path.write_text(content, encoding="utf-8")
    return check(path, load_catalogue([]).never_evidence)


def test_a_good_file(tmp_path: Path) -> None:
    found = checked(tmp_path, GOOD)
    assert (found.problems, found.warnings) == ([], [])
    assert found.lines == {"moon_phase": 3, "tide": 9}


@pytest.mark.parametrize(
    ("before", "after", "line", "reason"),
    [
        ("kind: transient", "kind: bad_luck", 6, "Invalid enum value 'bad_luck'"),
        ('"low water"\n', "17\n", 15, "Expected `str`, got `int`"),
        ('"low water"\n', '"low"\n', 15, "4 or more printable ASCII characters"),
        ("|low", "|(low", 16, "missing )"),
        ("tide is out|", "(?P<host>tide) is out|", 16, "allowed are pid and name"),
        ("layer: sea", "sea: true", 9, "unknown field `sea`"),
        ("    layer: sea\n", "", 9, "missing required field `layer`"),
        ("id: tide", "id: moon_phase", 9, "the id stands twice"),
        ("id: tide", "id: Tide", 9, "lower case letters"),
        ("  - id: tide", "  - id: tide: 7", 9, "mapping values are not allowed here"),
        ("    kind: config", "   kind: config", 12, "not valid YAML"),
        ("schema_version: 1", "schema_version: 2", 1, "Invalid enum value 2"),
        ('"the tide is out"]', '"the tide is in"]', 18, "the example does not show the class"),
        ('"low water mark"', '"low water at 7"', 19, "the near miss shows the class"),
    ],
)
def test_a_broken_file(tmp_path: Path, before: str, after: str, line: int, reason: str) -> None:
    assert before in GOOD
    (problem,) = checked(tmp_path, GOOD.replace(before, after, 1)).problems
    assert reason in problem.text
    assert problem.line == line


@pytest.mark.parametrize("content", ["", "just words", "- 1", "\x00", "classes: {", "schema_version: 1"])
def test_what_is_no_catalogue_at_all(tmp_path: Path, content: str) -> None:
    assert len(checked(tmp_path, content).problems) == 1


@pytest.mark.parametrize(
    ("before", "after", "line", "doubt"),
    [
        ('"full moon tonight"', '"OOM problem"', 3, "matches 'OOM problem', which is never evidence"),
        ('"full moon tonight"', '"moon"', 7, "'moon' is short"),
        ("tide is out|", "([0-9]+)+$|tide is out|", 16, "is slow"),
    ],
)
def test_a_doubtful_file(tmp_path: Path, before: str, after: str, line: int, doubt: str) -> None:
    found = checked(tmp_path, GOOD.replace(before, after, 1))
    assert found.problems == []
    (warning,) = found.warnings
    assert doubt in warning.text
    assert warning.line == line


def test_the_environment_names_files_and_later_ones_win(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "1.yml", tmp_path / "2.yml"
    first.write_text(GOOD, encoding="utf-8")
    second.write_text(GOOD.replace("transient", "setup").split("  - id: tide")[0], encoding="utf-8")
    monkeypatch.setenv("TREELINE_CATALOGUE", f"{first}{os.pathsep}{second}")
    verdict = classify_journal(["full moon tonight"], alive=False)
    assert (verdict.class_, verdict.kind) == ("moon_phase", "setup")
    assert classify_journal(["the tide is out"], alive=False).class_ == "tide"
    assert classify_journal(["the tide is out"], alive=False, catalogue=[]).class_ == "unknown"
