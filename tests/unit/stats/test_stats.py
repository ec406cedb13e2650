"""Comparisons of service lives, on exact public values and on simulated lives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from treeline.stats import (
    clopper_pearson,
    compare,
    drift,
    mean_interval,
    rank,
    ratio_of_sums_interval,
    sign_test,
)

# Luce-Org/lucebox-hub dflash/RESULTS.md @8cf241c6: budget -> (acceptance length, tok/s); RTX 3090.
TABLE_A = {
    15: (7.64, 125.3),
    16: (7.81, 128.7),
    18: (8.22, 131.2),
    20: (8.64, 133.9),
    22: (8.88, 135.8),
    24: (8.91, 133.0),
    30: (8.86, 120.5),
    40: (8.90, 105.1),
}
# The same, RTX 5090; budget 12 failed (a shape assertion) and is no measurement.
TABLE_B = {
    15: (4.99, 174.45),
    16: (5.76, 176.98),
    18: (6.93, 206.62),
    20: (6.94, 204.03),
    22: (7.25, 211.20),
    24: (7.19, 203.08),
    26: (7.09, 199.96),
    30: (7.44, 206.19),
    32: (6.87, 183.34),
    40: (6.97, 174.52),
    48: (7.07, 165.24),
    64: (7.14, 148.12),
}
SPREAD = 0.005  # between-life standard deviation of the simulations


@pytest.mark.parametrize(("table", "best_by_al"), [(TABLE_A, 24), (TABLE_B, 30)])
def test_public_tables_name_the_best_observed_and_no_more(table: dict, best_by_al: int) -> None:
    by_speed = rank({budget: [row[1]] for budget, row in table.items()})
    by_al = rank({budget: [row[0]] for budget, row in table.items()})
    assert (by_speed.best, by_al.best) == (22, best_by_al)
    assert by_speed.order != by_al.order
    assert by_speed.text.startswith("22: best observed, single measurement, not separated from ")
    assert set(by_speed.not_separated) == set(table) - {22}


def lives(rng: np.random.Generator, mean: float, n: int) -> list[float]:
    return list(mean * np.exp(rng.normal(0, SPREAD, n)))


def named(seed: int, runs: int, ratio: float, n: int, paired: bool) -> float:
    """Share of comparisons in which a winner is named."""
    rng = np.random.default_rng(seed)
    hits = sum(
        compare(lives(rng, 1000, n), lives(rng, 1000 * ratio, n), paired=paired).winner is not None
        for _ in range(runs)
    )
    return hits / runs


@pytest.mark.parametrize(("paired", "runs"), [(True, 2000), (False, 400)])
def test_equal_settings_seldom_have_a_winner(paired: bool, runs: int) -> None:
    assert named(11, runs, 1.0, 3, paired) <= 0.06


@pytest.mark.parametrize(("paired", "runs"), [(True, 2000), (False, 400)])
def test_three_percent_are_found(paired: bool, runs: int) -> None:
    assert named(12, runs, 1.03, 3, paired) >= 0.8


def test_one_life_each_never_has_a_winner() -> None:
    assert named(13, 2000, 1.03, 1, False) == 0
    assert compare([100.0], [130.0]).text == "no difference shown (one life); observed +30.0 %"


def test_pairs_remove_a_drift_of_the_host() -> None:
    # ABBA: the host loses 2 % a life; the pairs are neighbours, so their order alternates.
    slower = [1000 * 0.98**k for k in range(6)]
    first = [slower[0], slower[3], slower[4]]
    second = [slower[1] * 1.005, slower[2] * 1.004, slower[5] * 1.006]
    assert abs(compare(first, second, paired=True).ratio - 1) < 0.02
    assert compare(first, second, paired=True).winner is None


def test_a_ranking_compares_in_pairs_what_was_run_in_turns() -> None:
    drifting = [1000 * 0.97**k for k in range(3)]
    lives = {"a": drifting, "b": [rate * (1.01 + k / 10000) for k, rate in enumerate(drifting)], "c": [900.0]}
    rounds = {name: dict(enumerate(values)) for name, values in lives.items()}
    assert rank(lives).not_separated == ("a", "c")
    found = rank(lives, rounds=rounds)
    assert found.against_best["a"].paired
    assert not found.against_best["c"].paired
    # One life names nobody, so it makes no verdict on the others weaker.
    assert (found.best, found.not_separated) == ("b", ("c",))


def test_the_verdict_has_its_interval_in_words() -> None:
    found = compare([100, 101, 99.5], [110, 111, 109])
    assert found.winner == "second"
    assert found.text.startswith("second is higher: +9.8 % [")
    same = compare([100, 101, 99.5], [100.2, 100.9, 99.6])
    assert same.text.startswith("no difference shown: +0.1 %")


def test_values_without_any_spread_prove_nothing() -> None:
    assert compare([5.0, 5.0], [6.0, 6.0]).winner is None


@pytest.mark.parametrize("values", [[], [0.0, 1.0], [float("nan"), 1.0]])
def test_impossible_lives_are_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="one for each service life"):
        compare(values, [1.0, 2.0])


def test_acceptance_is_a_ratio_of_sums() -> None:
    # sgl-project/sglang#33518: one request, and one that weighs little.
    found = ratio_of_sums_interval([106, 2], [43, 2])
    assert found.value == pytest.approx(108 / 45, abs=1e-12)
    assert ratio_of_sums_interval([106], [43]).value == pytest.approx(2.4651162790697674, abs=1e-12)
    assert ratio_of_sums_interval([106], [43]).low is None
    with pytest.raises(ValueError, match="sum to 0"):
        ratio_of_sums_interval([1, 2], [0, 0])


def test_the_bootstrap_interval_covers() -> None:
    rng = np.random.default_rng(14)
    covered = 0
    for run in range(200):
        calls = rng.integers(10, 60, 80)
        tokens = rng.poisson(4.5 * calls)
        found = ratio_of_sums_interval(tokens, calls, seed=run, resamples=400)
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 4.5 <= found.high
    assert covered >= 180


@given(st.lists(st.floats(0.1, 1e6), min_size=2, max_size=6))
@settings(max_examples=50, deadline=None)
def test_an_interval_holds_its_mean(values: list[float]) -> None:
    found = mean_interval(values)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.value <= found.high


def test_exact_bounds() -> None:
    assert clopper_pearson(0, 10)[0] == 0
    assert clopper_pearson(0, 10)[1] == pytest.approx(0.3085, abs=1e-4)
    assert sign_test(0, 0) == 1
    assert sign_test(9, 1) == pytest.approx(0.0215, abs=1e-4)


def test_drift_is_judged_against_the_first_anchor() -> None:
    assert drift([100]).drifted is None
    assert drift([100, 101, 99]).drifted is False
    moved = drift([100, 94, 98])
    assert moved.drifted is True
    assert moved.text.startswith("the host drifted: anchor -6.0 % at most, -2.0 % from first to last")
