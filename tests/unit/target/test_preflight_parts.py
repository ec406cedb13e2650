"""Parts of the preflight that need no systemd: root, the trial's account, how long a stop may take."""

from __future__ import annotations

import grp
import math
import os
import pwd

import pytest
from treeline_target import preflight, systemd, trial_account

ASKED = preflight.Request(found_units=["a.service"], trial_unit="a.service", production_port=1, trial_port=1)


def test_without_root_that_alone_is_said() -> None:
    was = os.geteuid()
    if was == 0:
        os.seteuid(65534)
    try:
        report = preflight.look(ASKED)
    finally:
        if was == 0:
            os.seteuid(was)
    (problem,) = report.problems
    assert "ansible_become: true" in problem


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_is_told_everything_else() -> None:
    problems = preflight.look(ASKED).problems
    assert problems
    assert not any("ansible_become" in problem for problem in problems)


def test_an_absent_account_of_the_trial_is_named() -> None:
    problems: list[str] = []
    trial_account.check("[Unit]\nUser=x\n[Service]\nUser=no-such-one\nGroup=nor-this\n", problems)
    user, group = problems
    assert "as user no-such-one, which does not exist" in user
    assert "run deploy.yml or name an existing user with sglang_ddtree_user" in user
    assert "as group nor-this" in group


@pytest.mark.parametrize(
    "text",
    [
        f"[Service]\nUser={pwd.getpwuid(0).pw_name}\nGroup={grp.getgrgid(0).gr_name}\n",
        "[Service]\nUser=4711\nGroup=4712\n",
        "[Service]\nUser=no-such-one\nDynamicUser=yes\n",
        "[Service]\nUser=no-such-one\nUser=root\n",
        "[Service]\nExecStart=/bin/true\n",
        "",
    ],
)
def test_an_account_that_is_there_or_need_not_be_is_no_problem(text: str) -> None:
    problems: list[str] = []
    trial_account.check(text, problems)
    assert problems == []


@pytest.mark.parametrize(
    ("shown", "seconds"),
    [
        ("1min 30s", 90),
        ("15min", 900),
        ("2h 5s", 7205),
        ("1d", 86400),
        ("1.500s", 1.5),
        ("500ms", 0.5),
        ("0", 0),
        ("infinity", math.inf),
        ("", None),
        ("soon", None),
    ],
)
def test_time_spans_are_read_as_systemd_prints_them(shown: str, seconds: float | None) -> None:
    assert systemd.seconds(shown) == seconds
