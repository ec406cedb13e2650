"""The canaries that ship: enough of them, exact, and right by the answers that the lab's model is taught."""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from treeline import material
from treeline_target import coding, load_canaries, load_spec

ROOT = Path(__file__).resolve().parents[3]
ANSWERS = yaml.safe_load((ROOT / "lab/reference_engine/training/answers.yml").read_text("utf-8"))
RAW = material.canaries()
CANARIES = load_spec.parse_canaries(RAW)


def test_there_are_enough_and_each_has_a_name_and_a_question_of_its_own() -> None:
    assert len(CANARIES) >= 64
    assert len({one.id for one in CANARIES}) == len(CANARIES)
    assert len({one.messages[0]["content"] for one in CANARIES}) == len(CANARIES)
    assert len({one["kind"] for one in RAW}) >= 8


@pytest.mark.parametrize("canary", CANARIES, ids=lambda one: one.id)
def test_the_known_answer_is_right_and_no_other_one_is(canary: load_spec.Canary) -> None:
    right = str(ANSWERS[canary.id])
    assert canary.is_right(right)
    assert canary.is_right(f"Sure. The answer is:\n{right}\n")
    # The question alone does not hold the answer, unless it asks for a copy.
    if not canary.id.startswith("copy"):
        assert not canary.is_right(canary.messages[0]["content"])
    others = [str(answer) for name, answer in ANSWERS.items() if name != canary.id]
    assert sum(map(canary.is_right, others)) <= 2  # a number alone may stand in a list of them
    words = right.split()
    if len(words) > 2:
        assert not canary.is_right(" ".join([*words[:1], "purple", *words[2:]]))


def test_a_short_text_does_not_decide_most_of_them() -> None:
    assert statistics.median(len(str(ANSWERS[one.id]).split()) for one in CANARIES) >= 3


def test_those_asked_alone_hold_the_coding_tasks_and_other_kinds() -> None:
    alone = RAW[: load_canaries.SINGLE]
    assert [one["kind"] for one in alone].count("code") == 5
    assert len({one["kind"] for one in alone}) >= 4


def test_five_coding_tasks_are_solved_by_the_known_answers() -> None:
    rows = [{"id": one["id"], "phase": "single", "got": ANSWERS[str(one["id"])]} for one in RAW]
    tasks = coding.tasks_of(RAW, rows)
    assert len(tasks) == 5
    for task in tasks:
        wrong = f"{task.code.split('(')[0][4:]} = lambda *_: None"
        assert _ends_well(f"{task.code}\n{task.check}")
        assert not _ends_well(f"{task.code}\n{wrong}\n{task.check}")


def _ends_well(program: str) -> bool:
    return subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True).returncode == 0
