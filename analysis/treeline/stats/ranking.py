"""Which configuration is best, and whether the figures can tell it from the next ones."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from treeline.stats.compare import Comparison, compare

# With fewer rounds in common a comparison in pairs would have less to go by than one of all lives.
_FEWEST_PAIRS = 2


@dataclass(frozen=True)
class Ranking:
    """Configurations by their mean, best first.

    Attributes:
        order: names, best first.
        best: the first of them.
        against_best: how each other one compares with the best (first = the other, second = the best).
        not_separated: names that the figures cannot tell from the best.
        single: whether the best rests on one service life.
    """

    order: tuple[Hashable, ...]
    best: Hashable
    against_best: dict[Hashable, Comparison]
    not_separated: tuple[Hashable, ...]
    single: bool

    @property
    def text(self) -> str:
        """The verdict in one sentence."""
        basis = "best observed, single measurement" if self.single else "best"
        if not self.against_best:
            return f"{self.best}: the only one measured"
        if not self.not_separated:
            return f"{self.best}: best, separated from all others"
        near = ", ".join(str(name) for name in self.not_separated[:4])
        more = f" and {len(self.not_separated) - 4} more" if len(self.not_separated) > 4 else ""
        return f"{self.best}: {basis}, not separated from {near}{more}"


Rounds = Mapping[Hashable, float]
"""Lives that were run in turns with those of other configurations, by the round that they belong to."""


def rank(
    lives: Mapping[Hashable, Sequence[float]], *, rounds: Mapping[Hashable, Rounds] | None = None
) -> Ranking:
    """Order configurations by their mean over service lives, the highest first.

    Args:
        lives: positive values of each configuration, one for each service life; a configuration that failed
            has none and must be left out by the caller (it is kept in its table).
        rounds: of each configuration those of its lives that were neighbours in time of others' (ABBA order).
            Two that share two rounds or more are compared in pairs, by these lives.

    Raises:
        ValueError: no configuration, or a value that is not positive.
    """
    if not lives:
        raise ValueError("no configuration to rank")
    means = {name: sum(values) / len(values) for name, values in lives.items() if len(values)}
    if len(means) != len(lives):
        raise ValueError(f"without any service life: {sorted(str(name) for name in set(lives) - set(means))}")
    order = tuple(sorted(means, key=lambda name: -means[name]))
    best = order[0]
    others = order[1:]
    sides = {name: _sides(name, best, lives, rounds or {}) for name in others}
    # A side of one life never names a winner, so it is no chance to name a wrong one.
    telling = sum(min(len(side.other), len(side.best)) > 1 for side in sides.values())
    against = {
        name: compare(side.other, side.best, paired=side.paired, comparisons=max(1, telling))
        for name, side in sides.items()
    }
    near = tuple(name for name in others if against[name].winner is None)
    return Ranking(order, best, against, near, single=len(lives[best]) == 1)


@dataclass(frozen=True)
class _Sides:
    other: Sequence[float]
    best: Sequence[float]
    paired: bool


def _sides(
    name: Hashable,
    best: Hashable,
    lives: Mapping[Hashable, Sequence[float]],
    rounds: Mapping[Hashable, Rounds],
) -> _Sides:
    ours, theirs = rounds.get(name, {}), rounds.get(best, {})
    common = [place for place in ours if place in theirs]
    if len(common) < _FEWEST_PAIRS:
        return _Sides(lives[name], lives[best], paired=False)
    return _Sides([ours[place] for place in common], [theirs[place] for place in common], paired=True)
