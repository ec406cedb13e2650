"""Two restart keys against each other: is one better, and by how much?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

ALPHA = 0.05
Winner = Literal["first", "second"]


@dataclass(frozen=True)
class Comparison:
    """What two sets of service lives say about a ratio second / first.

    Attributes:
        ratio: geometric mean of the second over that of the first.
        low, high: its interval; None with too few lives.
        p: two-sided; None with too few lives.
        winner: which one has the higher values, only where the difference is shown.
        lives: how many lives each side has.
        paired: whether lives were compared in pairs (ABBA order), which removes a drift of the host.
    """

    ratio: float
    low: float | None
    high: float | None
    p: float | None
    winner: Winner | None
    lives: tuple[int, int]
    paired: bool

    @property
    def text(self) -> str:
        """The verdict in words; "no difference shown" is an answer like any other."""
        change = f"{(self.ratio - 1) * 100:+.1f} %"
        if self.p is None or self.low is None or self.high is None:
            few = "one life" if min(self.lives) == 1 else f"{min(self.lives)} lives"
            return f"no difference shown ({few}); observed {change}"
        spread = f"{change} [{(self.low - 1) * 100:+.1f}, {(self.high - 1) * 100:+.1f}] %"
        of = f"{self.lives[0]} and {self.lives[1]} lives, p = {self.p:.3g}"
        return (
            f"{self.winner} is higher: {spread} ({of})"
            if self.winner
            else f"no difference shown: {spread} ({of})"
        )


def compare(
    first: Sequence[float],
    second: Sequence[float],
    *,
    paired: bool = False,
    alpha: float = ALPHA,
    comparisons: int = 1,
) -> Comparison:
    """Compare two restart keys by one positive value (tok/s, acceptance length) per service life.

    Values are compared on a log scale, so that the result is a ratio. Unpaired lives are compared by Welch's
    test, pairs by Student's. With fewer than two lives on a side nothing is ever named.

    Args:
        first, second: one positive value for each life.
        paired: whether ``first[i]`` and ``second[i]`` were neighbours in time on one host (ABBA order).
        alpha: accepted rate of naming a winner where there is none.
        comparisons: how many such comparisons are made together (Bonferroni).

    Raises:
        ValueError: a value is not positive and finite, a side is empty, or pairs are of unequal number.
    """
    ours, theirs = _logs(first, "first"), _logs(second, "second")
    if paired and len(ours) != len(theirs):
        raise ValueError(f"pairs need equal numbers of lives, not {len(ours)} and {len(theirs)}")
    ratio = float(np.exp(theirs.mean() - ours.mean()))
    lives = (len(ours), len(theirs))
    if min(lives) < 2:
        return Comparison(ratio, None, None, None, None, lives, paired)
    level = alpha / comparisons
    if np.ptp(theirs - ours if paired else np.concatenate([ours - ours[0], theirs - theirs[0]])) == 0:
        # No spread at all: replayed or copied values. A test would divide by zero, and proves nothing.
        return Comparison(ratio, None, None, None, None, lives, paired)
    result = stats.ttest_rel(theirs, ours) if paired else stats.ttest_ind(theirs, ours, equal_var=False)
    bounds = result.confidence_interval(1 - level)
    shown = bool(result.pvalue < level)
    winner: Winner | None = ("second" if ratio > 1 else "first") if shown else None
    return Comparison(
        ratio,
        float(np.exp(bounds.low)),
        float(np.exp(bounds.high)),
        float(result.pvalue),
        winner,
        lives,
        paired,
    )


def _logs(values: Sequence[float], name: str) -> np.ndarray:
    array = np.asarray(values, dtype=float)
    if array.size == 0 or not np.isfinite(array).all() or (array <= 0).any():
        raise ValueError(
            f"{name}: {list(values)} is not a list of positive numbers, one for each service life"
        )
    return np.log(array)
