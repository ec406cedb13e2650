"""Threshold laws: a cell is dead where any of one or two features reaches its limit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treeline.laws.observe import Observation


@dataclass(frozen=True)
class Law:
    """Dead where any of ``features`` is at or above its threshold."""

    name: str
    features: tuple[str, ...]

    @property
    def text(self) -> str:
        """The law in words, such as ``rows >= T, or budget >= T``."""
        return ", or ".join(f"{feature} >= T" for feature in self.features)


LAWS = (
    Law("product threshold", ("rows",)),
    Law("budget threshold", ("budget",)),
    Law("maxreq threshold", ("maxreq",)),
    Law("topk threshold", ("topk",)),
    Law("per-axis thresholds", ("budget", "maxreq")),
    Law("union of product and budget", ("rows", "budget")),
)


@dataclass(frozen=True)
class Bracket:
    """Where a threshold lies: above ``low``, at most ``high``. Infinite where no cell bounds that side."""

    feature: str
    low: float
    high: float

    @property
    def bounded(self) -> bool:
        """Whether both sides are measured."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    def __str__(self) -> str:
        low = "-inf" if self.low == -math.inf else f"{self.low:g}"
        return f"({low}, {self.high:g}]" if math.isfinite(self.high) else f"({low}, inf)"


@dataclass(frozen=True)
class Fit:
    """A law with the thresholds that get the fewest cells wrong.

    Attributes:
        wrong: cells that it gets wrong in any case, with the best thresholds.
        brackets: for each feature, where the best thresholds lie.
        held_out: per observation, what the law says of it when fitted to the others: whether it is dead, or
            None where the others leave that open.
    """

    law: Law
    observations: tuple[Observation, ...]
    wrong: tuple[Observation, ...]
    brackets: tuple[Bracket, ...]
    held_out: tuple[bool | None, ...]

    @property
    def held_out_wrong(self) -> tuple[Observation, ...]:
        """Held-out cells of which it said the opposite."""
        told = zip(self.observations, self.held_out, strict=True)
        return tuple(cell for cell, said in told if said is not None and said != cell.dead)

    @property
    def held_out_open(self) -> int:
        """How many held-out cells it said nothing about."""
        return sum(said is None for said in self.held_out)

    @property
    def score(self) -> float:
        """Held-out cells got wrong, those left open counted as half: what guessing them would cost."""
        return len(self.held_out_wrong) + self.held_out_open / 2


def fit(law: Law, observations: Sequence[Observation]) -> Fit:
    """Fit a law by trying every distinct set of thresholds, and once more without each cell in turn.

    Raises:
        ValueError: no observation.
    """
    if not observations:
        raise ValueError("no cell to fit a law to")
    dead = np.array([cell.dead for cell in observations])
    cuts = [_cuts([cell.value(feature) for cell in observations]) for feature in law.features]
    sets = list(itertools.product(*cuts))
    # says[s, i]: whether threshold set s calls cell i dead.
    says = np.array(
        [
            np.any(
                [
                    np.array([cell.value(feature) for cell in observations]) >= cut.high
                    for feature, cut in zip(law.features, chosen, strict=True)
                ],
                axis=0,
            )
            for chosen in sets
        ]
    )
    missed = says != dead
    errors = missed.sum(axis=1)
    best = np.flatnonzero(errors == errors.min())
    always = missed[best].all(axis=0) if errors.min() else np.zeros(len(dead), bool)
    wrong = always if always.any() else missed[best[0]]
    return Fit(
        law=law,
        observations=tuple(observations),
        wrong=tuple(cell for cell, is_wrong in zip(observations, wrong, strict=True) if is_wrong),
        brackets=tuple(
            Bracket(
                feature, min(sets[at][place].low for at in best), max(sets[at][place].high for at in best)
            )
            for place, feature in enumerate(law.features)
        ),
        held_out=tuple(_held_out(says, missed, errors, at) for at in range(len(dead))),
    )


def _held_out(says: np.ndarray, missed: np.ndarray, errors: np.ndarray, at: int) -> bool | None:
    without = errors - missed[:, at]
    # The thresholds beside the cell differ in this cell alone, so both are among the best where it is open.
    said = says[without == without.min(), at]
    return None if said.any() and not said.all() else bool(said[0])


@dataclass(frozen=True)
class _Cut:
    """A threshold above ``low`` and at most ``high``."""

    low: float
    high: float


def _cuts(values: Sequence[int]) -> list[_Cut]:
    edges = [-math.inf, *map(float, sorted(set(values))), math.inf]
    return [_Cut(low, high) for low, high in itertools.pairwise(edges)]
