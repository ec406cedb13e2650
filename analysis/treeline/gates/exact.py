"""Exact tests on small counts, with whole numbers and ``math.comb`` only: plugins import this."""

from __future__ import annotations

import math


def at_least(successes: int, trials: int, chance: float) -> float:
    """The probability of ``successes`` or more in ``trials`` independent ones of this chance (binomial)."""
    if not 0.0 <= chance <= 1.0:
        raise ValueError(f"chance: {chance} is not between 0 and 1")
    if successes <= 0:
        return 1.0
    # The shorter tail is summed: rounding does not matter then, and long runs stay cheap.
    if successes > trials / 2:
        return math.fsum(_of(count, trials, chance) for count in range(successes, trials + 1))
    return max(0.0, 1.0 - math.fsum(_of(count, trials, chance) for count in range(successes)))


def worse_in_pairs(lost: int, won: int) -> float:
    """McNemar's exact test, one-sided: the chance of so many losses among the pairs that differ.

    ``lost`` pairs were right before and are wrong now, ``won`` the other way round; pairs that are equal say
    nothing. 1.0 where none differs.
    """
    pairs = lost + won
    return sum(math.comb(pairs, count) for count in range(lost, pairs + 1)) / 2**pairs


def fewest_for(alpha: float) -> int:
    """How many pairs must be able to differ before ``worse_in_pairs`` can fall to ``alpha`` at all."""
    return math.ceil(-math.log2(alpha) - 1e-12)


def _of(count: int, trials: int, chance: float) -> float:
    if count > trials or (chance == 0.0 and count) or (chance == 1.0 and count < trials):
        return 0.0
    if chance in (0.0, 1.0):
        return 1.0
    # Logarithms: comb() of long runs is beyond what a float holds.
    log = (
        math.lgamma(trials + 1)
        - math.lgamma(count + 1)
        - math.lgamma(trials - count + 1)
        + count * math.log(chance)
        + (trials - count) * math.log1p(-chance)
    )
    return math.exp(log)
