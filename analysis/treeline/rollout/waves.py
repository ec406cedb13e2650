"""In which order hosts get the new configuration, and how many at once."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from treeline.rollout.errors import RolloutRefusedError

DEFAULT = "1, 25 %, 100 %"
_SIZE = re.compile(r"([1-9][0-9]*)\s*(%?)")


@dataclass(frozen=True)
class Wave:
    """Hosts of one hardware class that change together, and go back together when one of them fails."""

    number: int
    hardware_class: str
    hosts: tuple[str, ...]
    canary: bool


def parse_sizes(text: str) -> tuple[tuple[int, bool], ...]:
    """Sizes as written, such as ``1, 25 %, 100 %``: (number, whether it is a percentage).

    Raises:
        RolloutRefusedError: naming the part that is not allowed.
    """
    sizes = []
    for part in text.split(","):
        found = _SIZE.fullmatch(part.strip())
        if found is None or (found[2] and int(found[1]) > 100):
            raise RolloutRefusedError(
                f"waves: {part.strip()!r} is not allowed. Allowed: numbers of hosts and percentages of a "
                f"hardware class up to 100 %, such as {DEFAULT!r}; the last one repeats"
            )
        sizes.append((int(found[1]), bool(found[2])))
    return tuple(sizes)


def plan(classes: Mapping[str, Sequence[str]], sizes: Sequence[tuple[int, bool]]) -> list[Wave]:
    """Waves in the order in which they run: the first of every class (the canaries), then the second ones.

    A percentage is one of the whole class, rounded up. The last size repeats until every host has its turn.
    """
    batches = {name: _batches(hosts, sizes) for name, hosts in classes.items() if hosts}
    rounds = max((len(batch) for batch in batches.values()), default=0)
    waves: list[Wave] = []
    for turn in range(rounds):
        for name in sorted(batches):
            if turn < len(batches[name]):
                waves.append(Wave(len(waves) + 1, name, batches[name][turn], canary=turn == 0))
    return waves


def _batches(hosts: Sequence[str], sizes: Sequence[tuple[int, bool]]) -> list[tuple[str, ...]]:
    left = list(hosts)
    batches: list[tuple[str, ...]] = []
    while left:
        number, percent = sizes[min(len(batches), len(sizes) - 1)]
        size = math.ceil(number * len(hosts) / 100) if percent else number
        batches.append(tuple(left[:size]))
        left = left[size:]
    return batches
