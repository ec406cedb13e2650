"""Canaries, coding tasks and outputs against what the baseline said, and without one."""

from __future__ import annotations

from typing import Any

import pytest
from gate_builders import canaries, gates, stored
from treeline.baselines import Answer, Baseline, Sample


def test_a_canary_counts_only_if_the_baseline_was_right_about_it() -> None:
    answers = {"canaries": canaries(single="++++----", busiest="++++----")}
    assert gates(answers)["canaries_busiest"].verdict == "failed"
    found = gates(answers, stored=stored("++++----"))
    assert (found["canaries_busiest"].verdict, found["canaries_busiest"].value) == ("passed", 1.0)
    assert found["canaries_single"].verdict == "passed"
    assert "the baseline of trial base-0001; 4 do not count" in found["canaries_busiest"].detail
    # A canary whose right answer was changed since then is another one.
    other = {f"c{n}": Answer(expect="y", busiest=True) for n in range(8)}
    assert gates(answers, stored=stored(canaries=other))["canaries_busiest"].verdict == "not available"


def test_a_missing_baseline_is_named() -> None:
    detail = gates(baseline="auto")["canaries_single"].detail
    assert "shipped with the canary, baseline=auto, none is stored" in detail


@pytest.mark.parametrize(
    ("before", "now", "verdict", "value"),
    [
        ("+" * 20, "+" * 20, "passed", 1.0),
        ("+" * 20, "-" * 6 + "+" * 14, "passed", 0.015625),
        ("+" * 20, "-" * 7 + "+" * 13, "failed", 0.007812),
        ("+" * 17 + "---", "-" * 7 + "+" * 13, "passed", 0.171875),
        ("+" * 6 + "-" * 14, "-" * 20, "not available", None),
    ],
)
def test_canaries_are_paired_with_the_baseline(
    before: str, now: str, verdict: str, value: float | None
) -> None:
    gate = gates({"canaries": canaries(busiest=now)}, stored=stored(before))["canaries_vs_baseline"]
    assert (gate.verdict, gate.value, gate.limit) == (verdict, value, ">= 0.01")


def coding(single: str, busiest: str) -> list[dict[str, Any]]:
    outcome = {"+": "passed", "-": "failed", "?": "not available"}
    return [
        {"id": f"t{n}", "phase": phase, "outcome": outcome[mark], "detail": "AssertionError"}
        for phase, marks in (("single", single), ("busiest", busiest))
        for n, mark in enumerate(marks)
    ]


@pytest.mark.parametrize(
    ("single", "busiest", "verdict", "value"),
    [
        ("+++++", "+++++", "passed", 5),
        ("+++++", "+----", "passed", 1),
        ("+++++", "-----", "failed", 0),
        ("-----", "", "failed", 0),
        ("---", "---", "not available", None),
        ("?????", "?????", "not available", None),
    ],
)
def test_coding_tasks_are_a_smoke_test(single: str, busiest: str, verdict: str, value: int | None) -> None:
    gate = gates({"coding": coding(single, busiest)})["coding_tasks"]
    assert (gate.verdict, gate.value) == (verdict, value)
    if value is not None:
        assert "smoke test" in gate.detail
    # Tasks that the baseline does not solve either say nothing.
    weak = stored(coding={f"t{n}": False for n in range(5)})
    assert gates({"coding": coding(single, busiest)}, stored=weak)["coding_tasks"].verdict == "not available"


def outputs(*texts: str) -> list[dict[str, Any]]:
    """Samples as the load returns them: one token a letter, a capital has a small margin."""
    return [
        {
            "id": f"s{n}",
            "prompt_sha256": "p",
            "tokens": [ord(letter.lower()) for letter in text],
            "margins": [0.5 if letter.isupper() else 5.0 for letter in text],
        }
        for n, text in enumerate(texts)
    ]


def kept(*texts: str, margins: bool = True, exact: bool = False) -> Baseline:
    rows = outputs(*texts)
    samples = tuple(Sample(**{**row, "margins": row["margins"] if margins else None}) for row in rows)
    return stored(samples=samples, exact=exact)


TWENTY = "abcdefghijklmnopqrst"


@pytest.mark.parametrize(
    ("before", "now", "verdict", "value"),
    [
        ((TWENTY,) * 4, (TWENTY,) * 4, "passed", 1.0),
        # Capitals: the model was not sure there, and what comes behind is another text.
        (("abcDefghijklmnopqrst",) * 20, ("abczzzzzzzzzzzzzzzzz",) * 20, "passed", 1.0),
        (("abcdefghijklmnopqrst",) * 4, ("abczzzzzzzzzzzzzzzzz",) * 4, "failed", 0.75),
        # One odd place in many is no proof.
        ((TWENTY,) * 40, ("abcdefghijklmnopqrsz", *(TWENTY,) * 39), "passed", 0.99875),
        (("abc",), ("abc",), "not available", 1.0),
        (("abc",), (), "not available", None),
    ],
)
def test_losslessness(
    before: tuple[str, ...], now: tuple[str, ...], verdict: str, value: float | None
) -> None:
    gate = gates({"samples": outputs(*now)}, stored=kept(*before))["token_agreement"]
    assert (gate.verdict, gate.value, gate.limit) == (verdict, value, ">= 0.999")


def test_losslessness_without_margins_has_a_figure_and_no_verdict() -> None:
    now = {"samples": outputs(*("abczzzzzzzzzzzzzzzzz",) * 4)}
    gate = gates(now, stored=kept(*(TWENTY,) * 4, margins=False))["token_agreement"]
    assert (gate.verdict, gate.value) == ("not available", 0.75)
    assert "4 of 4 outputs differ" in gate.detail
    # Where nothing is rounded, every place counts.
    exact = gates(now, stored=kept(*(TWENTY,) * 4, margins=False, exact=True))["token_agreement"]
    assert (exact.verdict, exact.value) == ("failed", 0.75)


def test_outputs_for_other_prompts_are_not_compared() -> None:
    other = [{**row, "prompt_sha256": "q"} for row in outputs("zzz")]
    assert gates({"samples": other}, stored=kept("abc"))["token_agreement"].verdict == "not available"
