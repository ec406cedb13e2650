"""What is done with answers that are code, short of running them (tests/lab/test_coding_tasks.py does)."""

from __future__ import annotations

import os

import pytest
from treeline_target import coding


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("def f():\n    return 1", "def f():\n    return 1"),
        ("Here it is:\n```python\ndef f():\n    return 1\n```\nIt works.", "def f():\n    return 1"),
        ("```\nx = 1\n```", "x = 1"),
        ("```py\ndef f():\n    return 1", "def f():\n    return 1"),
        ("Sure!\n\nimport math\n\ndef f(): ...", "import math\n\ndef f(): ..."),
        ("no code at all", "no code at all"),
    ],
)
def test_the_code_in_an_answer(answer: str, code: str) -> None:
    assert coding.extract(answer) == code


def test_only_answers_to_canaries_with_a_check_are_tasks() -> None:
    canaries = [{"id": "a", "check": "assert f() == 1"}, {"id": "b"}]
    answers = [
        {"id": "a", "phase": "single", "got": "def f(): return 1"},
        {"id": "b", "phase": "single", "got": "Paris"},
        {"id": "a", "phase": "busiest", "got": None, "error": "reset"},
        {"id": "a", "phase": "busiest", "got": "def f(): return 2"},
    ]
    tasks = coding.tasks_of(canaries, answers)
    assert [(one.phase, one.code) for one in tasks] == [
        ("single", "def f(): return 1"),
        ("busiest", "def f(): return 2"),
    ]


def test_the_unit_is_shut_in_by_every_property_that_is_asked_for() -> None:
    words = coding.command("u.service", "/usr/bin/python3")
    for wanted in (
        "PrivateNetwork=yes",
        "PrivateTmp=yes",
        "DynamicUser=yes",
        "ProtectSystem=strict",
        "NoNewPrivileges=yes",
        "MemoryMax=256M",
        "TasksMax=16",
        f"RuntimeMaxSec={coding.RUN_S}",
    ):
        assert words[words.index(wanted) - 1] == "--property"
    assert words[-4:] == ["/usr/bin/python3", "-I", "-S", "-"]


def test_without_systemd_run_or_root_nothing_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    found = coding.run(coding.Task("t", "single", "raise SystemExit", ""))
    assert found.outcome == "not available"
    assert ("systemd-run is not there" if os.geteuid() == 0 else "only root") in found.detail
