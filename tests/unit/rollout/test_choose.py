"""Which recorded row goes to which hardware class, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from recorded import B300, H200, NOW, add_trial
from treeline.records import Provenance
from treeline.rollout import candidates, objectives
from treeline.rollout.choose import Asked, Choice, choose
from treeline.rollout.errors import RolloutRefusedError

HOSTS = {"h1": B300, "h2": B300}


def decide(
    results: Path,
    hosts: dict[str, Provenance] = HOSTS,
    config: str = "best",
    objective: str = "throughput@32",
    allow_mismatch: bool = False,
    slo: objectives.Slo | None = None,
) -> dict[str, Choice]:
    asked = Asked(config, objectives.parse(objective, slo or objectives.Slo()), 30, allow_mismatch, NOW)
    return choose(candidates.read(results).lives, hosts, asked)


def test_the_best_row_is_chosen_and_says_why(tmp_path: Path) -> None:
    add_trial(tmp_path, 1, 8, tok_s=100)
    add_trial(tmp_path, 2, 16, tok_s=140)
    add_trial(tmp_path, 3, 32, status="crash", tok_s=None)
    chosen = decide(tmp_path)["8x B300"]
    assert chosen.candidate.key.budget == 16
    assert "140 tok/s" in chosen.why[0]
    assert "budget 8" in chosen.why[1]


def test_every_hardware_class_gets_its_own_row(tmp_path: Path) -> None:
    add_trial(tmp_path, 1, 8, tok_s=100)
    add_trial(tmp_path, 2, 16, tok_s=90, provenance=H200)
    found = decide(tmp_path, {"h1": B300, "h2": H200})
    assert {name: one.candidate.key.budget for name, one in found.items()} == {"8x B300": 8, "8x H200": 16}


def test_latency_takes_the_lowest_and_goodput_keeps_the_level(tmp_path: Path) -> None:
    add_trial(tmp_path, 1, 8, tok_s=100, tpot_p50_ms=9.0, tpot_p90_ms=12.0)
    add_trial(tmp_path, 2, 16, tok_s=140, tpot_p50_ms=14.0, tpot_p90_ms=20.0)
    assert decide(tmp_path, objective="latency@32")["8x B300"].candidate.key.budget == 8
    level = objectives.Slo(tpot_ms=15)
    assert decide(tmp_path, objective="goodput", slo=level)["8x B300"].candidate.key.budget == 8
    with pytest.raises(RolloutRefusedError, match="slo_ttft_ms"):
        decide(tmp_path, objective="goodput")


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        ({"h1": replace(B300, driver="590.2")}, "h1: driver is 590.2, measured with 580.1"),
        ({"h1": replace(B300, engine_build="sglang 0.5.24")}, "engine build is sglang 0.5.24"),
        ({"h1": replace(B300, model=None)}, "model is unknown, measured with k2"),
    ],
)
def test_a_row_of_something_else_is_refused_unless_allowed(
    tmp_path: Path, hosts: dict[str, Provenance], said: str
) -> None:
    add_trial(tmp_path, 1, 8)
    with pytest.raises(RolloutRefusedError, match="allow_mismatch") as refused:
        decide(tmp_path, hosts)
    assert said in str(refused.value)
    assert said in "; ".join(decide(tmp_path, hosts, allow_mismatch=True)["8x B300"].mismatches)


def test_a_class_without_a_row_is_refused(tmp_path: Path) -> None:
    add_trial(tmp_path, 1, 8)
    with pytest.raises(RolloutRefusedError, match="no ok trial of hardware class '8x H200'"):
        decide(tmp_path, {"h1": H200})


def test_old_and_contradicted_rows_are_passed_over_or_refused(tmp_path: Path) -> None:
    add_trial(tmp_path, 1, 8, tok_s=100)
    old = add_trial(tmp_path, 2, 16, tok_s=200, at="2025-11-01T00:00:00.000Z")
    twice = add_trial(tmp_path, 3, 24, tok_s=300)
    add_trial(tmp_path, 4, 24, status="crash", tok_s=None)
    assert decide(tmp_path)["8x B300"].candidate.key.budget == 8
    with pytest.raises(RolloutRefusedError, match="stale: measured 70 days ago"):
        decide(tmp_path, config=old)
    with pytest.raises(RolloutRefusedError, match=r"contradicted: ok in 1 trial\(s\), but crash"):
        decide(tmp_path, config=twice)


def test_rows_of_another_context_are_not_compared(tmp_path: Path) -> None:
    """Short prompts make any configuration look fast."""
    short = add_trial(tmp_path, 1, 8, tok_s=900, at="2026-01-05T00:00:00.000Z")
    add_trial(tmp_path, 2, 16, tok_s=120, context=4096)
    add_trial(tmp_path, 3, 24, tok_s=100, context=4096)
    # An older life of the same cell with short prompts: its figure is not averaged in.
    add_trial(tmp_path, 4, 24, tok_s=800, at="2026-01-05T00:00:00.000Z")
    chosen = decide(tmp_path)["8x B300"]
    assert (chosen.candidate.key.budget, chosen.candidate.value, chosen.candidate.context) == (16, 120, 4096)
    assert "the best of 2 configurations" in chosen.why[0]
    assert "100 tok/s (1 life)" in chosen.why[1]
    (passed_over,) = [text for text in chosen.why if text.startswith("passed over")]
    assert f"(trial {short}): measured at no set context, the newest row at context 4096" in passed_over


def test_a_row_that_is_not_ok_is_refused_by_name(tmp_path: Path) -> None:
    bad = add_trial(tmp_path, 1, 16, status="crash", tok_s=None)
    with pytest.raises(RolloutRefusedError, match=r"is crash \(illegal_address in serving\), not ok"):
        decide(tmp_path, config=bad)
    with pytest.raises(RolloutRefusedError, match="'nonsense' is not on record"):
        decide(tmp_path, config="nonsense")


@pytest.mark.parametrize("text", ["speed", "throughput@0", "latency", "throughput@8 ", "goodput@8"])
def test_an_objective_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(RolloutRefusedError, match="Allowed: throughput@N"):
        objectives.parse(text)
