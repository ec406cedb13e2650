"""Every gate, at, above and below its limit, and without anything to go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from treeline.gates import STATUS_OF_GATE, acceptance_length, evaluate
from treeline.records import Gate
from treeline.steps import Steps

TRIAL = "s-0001"


@dataclass
class Log:
    class_: str = "ok"
    phase: str | None = "serving"
    kind: str = "none"
    first_error: str | None = None
    rank: int | None = None
    captured_bs: int | None = None
    captured_width: int | None = None
    secondary: tuple[str, ...] = ()
    advice: str = ""
    accept_lens: tuple[float, ...] = ()


def point(concurrency: int = 8, **changes: Any) -> dict[str, Any]:
    return {
        "concurrency": concurrency,
        "context": None,
        "complete": True,
        "requests": 16,
        "failed": 0,
        "completion_tokens": 2000,
        "verify_calls": 500,
        "output_tok_s": 100.0,
        "prefix_cache_share": 0.0,
        "garble": {"flagged": 0, "of": 16},
    } | changes


def canaries(single: str = "++++++++", busiest: str = "++++++++") -> list[dict[str, Any]]:
    return [
        {"id": f"c{n}", "phase": phase, "ok": mark == "+", "got": "x", "expect": "x"}
        for phase, marks in (("single", single), ("busiest", busiest))
        for n, mark in enumerate(marks)
    ]


def gates(
    load: dict[str, Any] | None = None,
    ready: dict[str, Any] | None = None,
    log: Log | None = None,
    asked: int = 1,
) -> dict[str, Gate]:
    steps = Steps.of(
        {
            "begin": {"previous_invocation_id": "old"},
            "ready": {
                "outcome": "ready",
                "invocation_id": "new",
                "mismatches": [],
                "captured_width": 9,
                "proof": {"trial_id_in_env": TRIAL, "expected_width": 9},
            }
            | (ready or {}),
            "load": {"outcome": "done", "canaries": canaries(), "points": [point()]} | (load or {}),
        }
    )
    found = evaluate(steps, log or Log(), trial_id=TRIAL, points_asked=asked)
    assert len({gate.name for gate in found}) == len(found)
    return {gate.name: gate for gate in found}


def test_a_good_trial_passes_everything_that_can_be_told() -> None:
    found = gates()
    verdicts = {name: gate.verdict for name, gate in found.items()}
    assert verdicts.pop("acceptance_vs_anchor") == "not available"
    assert verdicts.pop("engine_overrun") == "not available"
    assert set(verdicts.values()) == {"passed"}
    assert found["acceptance"].value == 4.0
    assert "shipped with the canary, baseline=skip" in found["canaries_single"].detail


def test_every_gate_that_can_fail_has_a_status() -> None:
    assert set(gates()) - {name for name, _ in STATUS_OF_GATE} == {"ready"}


@pytest.mark.parametrize(
    ("ready", "name", "verdict"),
    [
        ({"invocation_id": "old"}, "new_invocation", "failed"),
        ({"invocation_id": ""}, "new_invocation", "not available"),
        ({"proof": {"trial_id_in_env": "s-0000"}}, "trial_id", "failed"),
        ({"proof": {"trial_id_in_env": None}}, "trial_id", "failed"),
        ({"proof": {}}, "trial_id", "not available"),
        ({"mismatches": [{"name": "budget", "expected": 8, "served": 4}]}, "served_arguments", "failed"),
        ({"mismatches": [{"name": "captured verify width"}]}, "served_arguments", "passed"),
        ({"mismatches": [{"name": "TREELINE_TRIAL_ID"}]}, "served_arguments", "passed"),
        ({"captured_width": 8}, "verify_width", "failed"),
        ({"captured_width": None}, "verify_width", "not available"),
        ({"outcome": "died"}, "ready", "failed"),
        ({"outcome": "died"}, "served_arguments", "not available"),
    ],
)
def test_who_serves(ready: dict[str, Any], name: str, verdict: str) -> None:
    gate = gates(ready=ready)[name]
    assert gate.verdict == verdict
    if name == "served_arguments" and verdict == "failed":
        assert gate.detail == "budget: asked for 8, served 4"


@pytest.mark.parametrize(
    ("marks", "verdict", "value"),
    [
        ("++++++++", "passed", 1.0),
        ("+++++---", "passed", 0.625),
        ("++++----", "failed", 0.5),
        ("+++-----", "failed", 0.375),
        ("--------", "failed", 0.0),
        ("--", "not available", 0.0),
        ("", "not available", None),
    ],
)
def test_canaries_of_both_phases(marks: str, verdict: str, value: float | None) -> None:
    found = gates({"canaries": canaries(single=marks)})
    assert (found["canaries_single"].verdict, found["canaries_single"].value) == (verdict, value)
    assert found["canaries_busiest"].verdict == "passed"
    found = gates({"canaries": canaries(busiest=marks)})
    assert (found["canaries_busiest"].verdict, found["canaries_busiest"].value) == (verdict, value)


def test_wrong_canaries_are_named() -> None:
    assert "wrong: c6, c7" in gates({"canaries": canaries("++++++--")})["canaries_single"].detail


def test_a_canary_without_an_answer_is_a_failed_request_and_no_garble() -> None:
    answers = canaries()
    for answer in answers[:5]:
        answer |= {"ok": False, "error": "http_status: HTTP 500", "finish": None}
    found = gates({"canaries": answers})
    assert found["canaries_single"].verdict == "passed"
    assert (found["failed_requests"].verdict, found["failed_requests"].value) == ("failed", 5)
    # It ran out of tokens while reasoning: no failed request, and nothing to judge.
    for answer in answers[:6]:
        answer |= {"error": "the answer has no content", "finish": "length"}
    found = gates({"canaries": answers})
    assert found["canaries_single"].verdict == "not available"
    assert found["failed_requests"].verdict == "passed"


@pytest.mark.parametrize(
    ("garble", "verdict"),
    [
        ({"flagged": 0, "of": 16}, "passed"),
        ({"flagged": 2, "of": 10}, "passed"),
        ({"flagged": 3, "of": 10}, "failed"),
        ({"flagged": 3, "of": 3}, "not available"),
        (None, "not available"),
    ],
)
def test_garbled_outputs(garble: dict[str, int] | None, verdict: str) -> None:
    assert gates({"points": [point(garble=garble)]})["garbled_outputs"].verdict == verdict


def test_the_worst_point_decides_garble_acceptance_and_cache() -> None:
    points = [
        point(1),
        point(32, garble={"flagged": 16, "of": 16}, verify_calls=2000, prefix_cache_share=0.5),
    ]
    found = gates({"points": points}, asked=2)
    for name in ("garbled_outputs", "acceptance", "prefix_cache"):
        assert found[name].verdict == "failed"
        assert "concurrency 32" in found[name].detail


@pytest.mark.parametrize(
    ("tokens", "calls", "verdict"),
    [(1050, 1000, "failed"), (1051, 1000, "passed"), (1000, 1000, "failed"), (19, 19, "not available")],
)
def test_the_acceptance_collapse_limit(tokens: int, calls: int, verdict: str) -> None:
    found = gates({"points": [point(completion_tokens=tokens, verify_calls=calls)]})
    assert found["acceptance"].verdict == verdict
    assert found["canaries_single"].verdict == "passed"


def test_the_log_stands_in_where_requests_do_not_report_verify_calls() -> None:
    bare = {"points": [point(verify_calls=None)]}
    assert gates(bare)["acceptance"].verdict == "not available"
    assert gates(bare)["speculation"].verdict == "not available"
    assert gates(bare, log=Log("silent_corruption"))["acceptance"].verdict == "failed"
    assert gates(bare, log=Log("spec_disabled"))["speculation"].verdict == "failed"
    assert gates(bare, log=Log(accept_lens=(4.0,)))["speculation"].verdict == "passed"


def test_speculation_that_is_silently_off() -> None:
    found = gates({"points": [point(verify_calls=0)]})
    assert found["speculation"].verdict == "failed"
    assert found["acceptance"].verdict == "not available"


@pytest.mark.parametrize(
    ("load", "name", "verdict"),
    [
        ({"points": [point(failed=1)]}, "failed_requests", "failed"),
        ({"points": []}, "failed_requests", "not available"),
        ({"points": [point(prefix_cache_share=0.0099)]}, "prefix_cache", "passed"),
        ({"points": [point(prefix_cache_share=0.01)]}, "prefix_cache", "failed"),
        ({"points": [point(prefix_cache_share=None)]}, "prefix_cache", "not available"),
        ({"engine": {"simulated": True, "overrun_share": 0.2}}, "engine_overrun", "passed"),
        ({"engine": {"simulated": True, "overrun_share": 0.21}}, "engine_overrun", "failed"),
        ({"engine": {"simulated": True}}, "engine_overrun", "not available"),
        ({"points": []}, "points_measured", "failed"),
        ({"points": [point(complete=False)]}, "points_measured", "failed"),
        ({"outcome": "died", "points": []}, "points_measured", "not available"),
    ],
)
def test_measurement_gates(load: dict[str, Any], name: str, verdict: str) -> None:
    assert gates(load)[name].verdict == verdict


def test_nothing_is_passed_without_anything_to_go_on() -> None:
    found = evaluate(Steps.of({}), None, trial_id=TRIAL, points_asked=1)
    assert {gate.verdict for gate in found} == {"not available"}


def test_acceptance_is_a_ratio_of_sums() -> None:
    points = [point(completion_tokens=100, verify_calls=100), point(completion_tokens=900, verify_calls=100)]
    assert acceptance_length([*points, point(verify_calls=None)]) == 5.0
    assert acceptance_length([]) is None
