"""What is compared, and how, before a running service counts as the trial."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import Any

import pytest
from treeline_target import proof


@pytest.mark.parametrize(
    ("expected", "served", "same"),
    [
        (8, 8, True),
        (8, "8", True),
        ("8", 8.0, True),
        (8, 9, False),
        (True, True, True),
        (True, "true", True),
        (True, 1, False),
        (False, 0, False),
        ("triton", "triton", True),
        ("triton", "fa3", False),
        ("triton", None, False),
        (None, None, True),
        (None, "fa3", False),
        ([1, 2], [1, 2], True),
        ([1, 2], "[1, 2]", False),
    ],
)
def test_values_are_compared_by_meaning(expected: Any, served: Any, same: bool) -> None:
    assert proof.same_value(expected, served) is same


def test_what_differs_or_is_not_reported_is_named() -> None:
    served = {"budget": 8, "internal_states": [{"effective_max_running_requests_per_dp": 64}]}
    expected = {
        "budget": 16,
        "topk": 4,
        "internal_states.0.effective_max_running_requests_per_dp": 64,
        "internal_states.1.effective_max_running_requests_per_dp": 64,
    }
    found = proof.compare(expected, served)
    assert [str(one) for one in found] == [
        "budget: asked for 16, served 8",
        "topk: asked for 4, not reported",
        "internal_states.1.effective_max_running_requests_per_dp: asked for 64, not reported",
    ]
    assert found[0].as_dict() == {"name": "budget", "expected": 16, "served": 8}
    assert proof.reported(expected, served) == {
        "budget": 8,
        "internal_states.0.effective_max_running_requests_per_dp": 64,
    }
    assert proof.compare({"budget": 8}, served) == []


def test_a_width_that_was_not_printed_proves_nothing() -> None:
    assert proof.compare_width(17, None) is None
    assert proof.compare_width(None, 17) is None
    assert proof.compare_width(17, 17) is None
    assert str(proof.compare_width(17, 8)) == "captured verify width: asked for 17, served 8"


def test_the_environment_of_a_process_is_that_of_its_start() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"],
        env={"TREELINE_TRIAL_ID": "sweep-0001", "EMPTY": "", "LINES": "a\nb=c"},
        stdin=subprocess.PIPE,
    )
    try:
        environment = proof.environment_of(child.pid)
        assert environment["TREELINE_TRIAL_ID"] == "sweep-0001"
        assert (environment["EMPTY"], environment["LINES"]) == ("", "a\nb=c")
    finally:
        child.kill()
        child.communicate()
    with pytest.raises(proof.ProofError, match=f"process {child.pid}"):
        proof.environment_of(child.pid)


def test_a_listener_outside_the_unit_is_a_stranger() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        assert proof.strangers(url, "trial.service") is None
        listening.listen()
        found = proof.strangers(url, "trial.service")
    assert found is not None
    assert [f"pid {os.getpid()} " in one for one in found] == [True]


def test_command_lines_that_do_not_parse_are_shown_all_the_same() -> None:
    shown = proof.presentable({"launch_command": "engine --api-key k3y 'unbalanced"})
    assert shown == {"launch_command": "engine --api-key *** 'unbalanced"}
