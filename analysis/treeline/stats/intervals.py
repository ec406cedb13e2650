"""Intervals of one quantity: of a mean over service lives, and of an acceptance length over requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats


@dataclass(frozen=True)
class Interval:
    """A value with its interval; ``low`` and ``high`` are None where nothing is known about its spread.

    Attributes:
        n: how many independent units it rests on (lives, or requests of one life).
        unit: what these units are.
    """

    value: float
    low: float | None
    high: float | None
    n: int
    unit: str

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.value:.4g} (one {self.unit}, no interval)"
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}] ({self.n} {_plural(self.unit)})"


def mean_interval(lives: Sequence[float], confidence: float = 0.95) -> Interval:
    """Mean over service lives with Student's interval; no interval from a single life.

    Args:
        lives: one value for each service life, in any unit.
        confidence: coverage, 0..1.

    Raises:
        ValueError: no value, or one that is not finite.
    """
    values = _finite(lives, "lives")
    mean = float(values.mean())
    if len(values) < 2:
        return Interval(mean, None, None, len(values), "life")
    half = float(stats.sem(values) * stats.t.ppf((1 + confidence) / 2, len(values) - 1))
    return Interval(mean, mean - half, mean + half, len(values), "life")


def ratio_of_sums_interval(
    numerators: Sequence[float],
    denominators: Sequence[float],
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """Sum of numerators / sum of denominators, with a bootstrap interval over requests.

    This is the acceptance length when given completion tokens and verify calls of each request: weighted by
    verify calls, and not the mean of the requests' own ratios. The interval is about noise inside one life.

    Args:
        numerators: one for each request.
        denominators: one for each request, in the same order; their sum must be above 0.
        confidence: coverage, 0..1.
        resamples: bootstrap samples.
        seed: of the resampling; the same seed gives the same interval.

    Raises:
        ValueError: unequal lengths, nothing, or a sum of 0.
    """
    top, bottom = _finite(numerators, "numerators"), _finite(denominators, "denominators")
    if len(top) != len(bottom):
        raise ValueError(f"{len(top)} numerators, but {len(bottom)} denominators")
    if bottom.sum() == 0:
        raise ValueError("the denominators sum to 0")
    value = float(top.sum() / bottom.sum())
    if len(top) < 2:
        return Interval(value, None, None, len(top), "request")
    picks = np.random.default_rng(seed).multinomial(len(top), np.full(len(top), 1 / len(top)), size=resamples)
    sums = picks @ bottom
    ratios = (picks @ top)[sums > 0] / sums[sums > 0]
    low, high = np.quantile(ratios, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(value, float(low), float(high), len(top), "request")


def _finite(values: Sequence[float], name: str) -> np.ndarray:
    array = np.asarray(values, dtype=float)
    if array.size == 0:
        raise ValueError(f"{name}: no value given")
    if not np.isfinite(array).all():
        raise ValueError(f"{name}: {list(values)} holds a value that is not a finite number")
    return array


def _plural(unit: str) -> str:
    return "lives" if unit == "life" else f"{unit}s"
