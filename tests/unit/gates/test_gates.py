"""Every gate, at, above and below its limit, and without anything to go on."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from gate_builders import TRIAL, Log, canaries, garble, gates, point, stored
from treeline.gates import STATUS_OF_GATE, acceptance_length, evaluate
from treeline.steps import Steps


def test_a_good_trial_passes_everything_that_can_be_told() -> None:
    found = gates()
    verdicts = {name: gate.verdict for name, gate in found.items()}
    needs_more = (
        "acceptance_vs_anchor",
        "engine_overrun",
        "canaries_vs_baseline",
        "token_agreement",
        "coding_tasks",
    )
    assert {verdicts.pop(name) for name in needs_more} == {"not available"}
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
    ("seen", "verdict"),
    [
        ({"flagged": 0, "of": 16}, "passed"),
        ({"flagged": 2, "of": 10}, "passed"),
        ({"flagged": 3, "of": 10}, "failed"),
        ({"flagged": 3, "of": 3}, "not available"),
        (None, "not available"),
    ],
)
def test_garbled_outputs(seen: dict[str, int] | None, verdict: str) -> None:
    found = gates({"points": [point(garble=seen)]})
    assert found["garbled_outputs"].verdict == verdict
    # What an older load returns has no pool.
    assert found["garbled_pool"].verdict == found["repetition"].verdict == "not available"


def test_outputs_taken_together() -> None:
    found = gates(
        {"points": [point(1), point(8, garble=garble(reasons=("no_repeats", "unreadable")))]}, asked=2
    )
    assert (found["garbled_pool"].verdict, found["garbled_pool"].value) == ("failed", 2)
    assert found["garbled_pool"].detail == "at concurrency 8: no_repeats 0.001, unreadable 0.001"
    assert found["garbled_outputs"].verdict == "passed"


@pytest.mark.parametrize(
    ("loops", "usual", "verdict", "limit"),
    [
        (8, None, "passed", 0.5),
        (9, None, "failed", 0.5),
        (4, 0.0, "passed", 0.3),
        (5, 0.0, "failed", 0.3),
        (9, 0.375, "passed", 0.625),
        (11, 0.375, "failed", 0.625),
        (16, 0.8, "not available", 1.05),
    ],
)
def test_repetition_is_measured_against_what_is_usual(
    loops: int, usual: float | None, verdict: str, limit: float
) -> None:
    base = None if usual is None else stored(looping_share=usual)
    gate = gates({"points": [point(garble=garble(loops=loops))]}, stored=base)["repetition"]
    assert (gate.verdict, gate.value, gate.limit) == (verdict, loops / 16, limit)


def test_the_worst_point_decides_garble_acceptance_and_cache() -> None:
    points = [
        point(1),
        point(
            32, garble=garble(16, loops=16, reasons=("length",)), verify_calls=2000, prefix_cache_share=0.5
        ),
    ]
    found = gates({"points": points}, asked=2)
    for name in ("garbled_outputs", "garbled_pool", "repetition", "acceptance", "prefix_cache"):
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


@pytest.mark.parametrize("tokens", [2, 3, 8, 20, 21, 128])
@pytest.mark.parametrize("told", [{"correct_drafts": 0}, {}])
def test_a_setting_that_accepts_nothing_collapses_in_short_answers_too(
    tokens: int, told: dict[str, int]
) -> None:
    """The token of the prefill counts in an acceptance length: 20 tokens in 19 calls are 1.0526."""
    served = point(completion_tokens=40 * tokens, verify_calls=40 * (tokens - 1), ok=40, **told)
    gate = gates({"points": [served]})["acceptance"]
    # Two tokens are one of the prefill's and one of a call, whatever that accepts: only drafts tell.
    if tokens == 2 and not told:
        assert gate.verdict == "not available"
        assert "answers of so few tokens" in gate.detail
    else:
        length = tokens / (tokens - 1)
        assert (gate.verdict, gate.value) == ("failed", 1.0 if told or tokens <= 20 else round(length, 4))
        assert ("prefill" in gate.detail) == (bool(told) or tokens <= 20)


@pytest.mark.parametrize("tell", [True, False])
def test_what_accepts_is_no_collapse_however_short_its_answers(tell: bool) -> None:
    for tokens, accepted in itertools.product(range(2, 30), range(1, 8)):
        calls = -(-(tokens - 1) // (accepted + 1))  # the last one is cut by the bound on tokens
        told = {"correct_drafts": 40 * calls * accepted} if tell else {}
        served = point(completion_tokens=40 * tokens, verify_calls=40 * calls, ok=40, **told)
        gate = gates({"points": [served]})["acceptance"]
        expected = ("not available", None) if tokens == 2 and not tell else ("passed", tokens / calls)
        assert (gate.verdict, gate.value) == (expected[0], pytest.approx(expected[1], abs=1e-4))


def test_answers_of_one_or_two_tokens_among_longer_ones_hide_nothing() -> None:
    collapsed = [1, 2, 2, 2, 15, 20] * 20
    calls = sum(tokens - 1 for tokens in collapsed)
    served = point(completion_tokens=sum(collapsed), verify_calls=calls, ok=len(collapsed))
    assert gates({"points": [served]})["acceptance"].value == 1.0


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


@pytest.mark.parametrize(
    ("anchor", "verdict", "value"),
    [
        (4.0, "passed", 1.0),
        (4.0 / 0.6, "passed", 0.6),
        (6.7, "failed", 0.597),
        ({"8": 6.7}, "failed", 0.597),
        ({"16": 6.7}, "not available", None),
        (None, "not available", None),
    ],
)
def test_acceptance_against_the_anchor(anchor: Any, verdict: str, value: float | None) -> None:
    gate = gates(anchor_al=anchor)["acceptance_vs_anchor"]
    assert (gate.verdict, gate.value) == (verdict, value)


@pytest.mark.parametrize(
    ("windows", "verdict"),
    [
        ([[400, 100]] * 5, "passed"),
        ([[400, 100]] * 3 + [[100, 100]] * 3, "failed"),
        ([[100, 100]] * 3 + [[400, 100]] * 3, "failed"),
        # Two windows are too short a stretch, and few calls say nothing.
        ([[400, 100]] * 4 + [[100, 100]] * 2, "passed"),
        ([[1900, 450]] + [[17, 17]] * 3, "passed"),
        ([], "not available"),
        ("nonsense", "not available"),
    ],
)
def test_a_collapse_inside_a_run(windows: Any, verdict: str) -> None:
    calls = sum(one[1] for one in windows) if isinstance(windows, list) else 500
    tokens = sum(one[0] for one in windows) if isinstance(windows, list) else 2000
    given = point(al_windows=windows, completion_tokens=tokens or 2000, verify_calls=calls or 500)
    found = gates({"points": [given]})
    assert found["acceptance_within_run"].verdict == verdict
    assert found["acceptance"].verdict == "passed"


def test_a_fall_that_only_the_log_shows() -> None:
    """Soon after a point begins: its mean stays above the floor, and is too low to look into its windows."""
    soon = point(completion_tokens=2560, verify_calls=2202)
    log = Log("silent_corruption", accept_lens=(2.04, *[1.0] * 12))
    found = gates({"points": [soon]}, log=log)
    assert found["acceptance"].verdict == "passed"
    assert (found["acceptance_within_run"].verdict, found["acceptance_within_run"].value) == ("failed", 1.0)
    assert gates({"points": [soon]})["acceptance_within_run"].verdict == "not available"
    from_the_start = point(completion_tokens=2000, verify_calls=1980)
    found = gates({"points": [from_the_start]}, log=log)
    failed = [name for name, gate in found.items() if gate.verdict == "failed"]
    assert failed == ["acceptance"]


def test_chunks_that_are_no_steps_tell_nothing_about_time() -> None:
    joined = point(al_windows=[[400, 20]] * 5)  # the engine sends a chunk every five steps
    assert gates({"points": [joined]})["acceptance_within_run"].verdict == "not available"
    nearly = point(al_windows=[[400, 80]] * 5)  # a few steps came together
    assert gates({"points": [nearly]})["acceptance_within_run"].value == 4.0


def test_the_baseline_itself_is_not_asked_for_speculation() -> None:
    found = gates({"points": [point(verify_calls=0)]}, speculative=False, log=Log("spec_disabled"))
    names = ("speculation", "acceptance", "acceptance_vs_anchor", "acceptance_within_run")
    assert {found[name].verdict for name in names} == {"not available"}
    assert found["canaries_busiest"].verdict == "passed"
