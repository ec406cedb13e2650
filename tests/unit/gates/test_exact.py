"""The small exact tests against those of a statistics library."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from treeline.gates.exact import at_least, fewest_for, worse_in_pairs


@given(
    st.integers(0, 3000).flatmap(lambda trials: st.tuples(st.integers(0, trials), st.just(trials))),
    st.floats(0, 1),
)
def test_the_binomial_tail_is_that_of_scipy(counts: tuple[int, int], chance: float) -> None:
    successes, trials = counts
    assert at_least(successes, trials, chance) == pytest.approx(
        binom.sf(successes - 1, trials, chance), abs=1e-9
    )


@pytest.mark.parametrize(
    ("lost", "won", "chance"),
    [(0, 0, 1.0), (6, 0, 2**-6), (7, 0, 2**-7), (5, 5, 0.623046875), (0, 7, 1.0), (8, 1, 10 / 512)],
)
def test_pairs(lost: int, won: int, chance: float) -> None:
    assert worse_in_pairs(lost, won) == pytest.approx(chance)


@pytest.mark.parametrize(("alpha", "pairs"), [(0.01, 7), (0.0078125, 7), (0.05, 5), (0.5, 1)])
def test_how_many_pairs_it_takes(alpha: float, pairs: int) -> None:
    assert fewest_for(alpha) == pairs
    assert worse_in_pairs(pairs, 0) <= alpha < worse_in_pairs(pairs - 1, 0)


def test_a_chance_is_between_0_and_1() -> None:
    with pytest.raises(ValueError, match=r"chance: 1\.5"):
        at_least(1, 2, 1.5)
