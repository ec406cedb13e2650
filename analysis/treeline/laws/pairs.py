"""Pairs of cells that say something by themselves: a refutation, or two that differ in one parameter."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from treeline.laws.observe import Observation

PARAMETERS = ("budget", "topk", "maxreq", "graphs")


@dataclass(frozen=True)
class Pair:
    """A cell that dies and one that lives."""

    dies: Observation
    lives: Observation

    def text(self, feature: str) -> str:
        """The pair by a feature, such as ``1088 dies, 1152 lives``."""
        return f"{self.dies.value(feature)} dies, {self.lives.value(feature)} lives"


def refuting(feature: str, observations: Sequence[Observation]) -> list[Pair]:
    """Pairs that no threshold on a feature explains: one dies at a value at which, or above which, one lives.

    The most telling ones first: a service that died before outputs that were judged, observed before
    extrapolated, then the largest distance.
    """
    dead = [cell for cell in observations if cell.dead]
    alive = [cell for cell in observations if not cell.dead]
    found = [
        Pair(one, other)
        for one, other in itertools.product(dead, alive)
        if one.value(feature) <= other.value(feature)
    ]
    return sorted(
        found,
        key=lambda pair: (
            not pair.dies.crashed,
            pair.dies.extrapolated,
            pair.dies.value(feature) - pair.lives.value(feature),
        ),
    )


def matched_pairs(observations: Sequence[Observation]) -> dict[str, list[Pair]]:
    """Per parameter, pairs that differ in it alone and end differently: it matters, whatever the law."""
    found: dict[str, list[Pair]] = {name: [] for name in PARAMETERS}
    for one, other in itertools.combinations(observations, 2):
        differing = [name for name in PARAMETERS if one.value(name) != other.value(name)]
        if len(differing) == 1 and one.dead != other.dead:
            pair = Pair(one, other) if one.dead else Pair(other, one)
            found[differing[0]].append(pair)
    return found
