"""Which configuration is best, and whether the figures can tell it from the next ones."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from treeline.stats.compare import Comparison, compare


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


def rank(lives: Mapping[Hashable, Sequence[float]], *, paired: bool = False) -> Ranking:
    """Order configurations by their mean over service lives, the highest first.

    Args:
        lives: positive values of each configuration, one for each service life; a configuration that failed
            has none and must be left out by the caller (it is kept in its table).
        paired: whether equal positions in the lists were neighbours in time (ABBA order).

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
    against = {
        name: compare(
            lives[name],
            lives[best],
            paired=paired and len(lives[name]) == len(lives[best]),
            comparisons=max(1, len(others)),
        )
        for name in others
    }
    near = tuple(name for name in others if against[name].winner is None)
    return Ranking(order, best, against, near, single=len(lives[best]) == 1)
