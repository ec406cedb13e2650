"""How fast a cell is, and which budget is measured next to find the fastest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from treeline.keys import ClientKey

# Differences below this share are noise of one life and no second maximum.
NOISE = 0.01


def objective_value(throughput: Mapping[str, float | None], objective: str) -> float | None:
    """Tokens/s that an objective takes from one life; None where it was not measured.

    ``throughput`` alone is the highest rate at any concurrency; ``...@N`` is the rate at N clients, where a
    lower time per token and more tokens/s are the same. Several contexts count by their mean.
    """
    rates: dict[str, list[float | None]] = {}
    for name, rate in throughput.items():
        rates.setdefault(name.split("@")[0], []).append(rate)
    means = {
        name: mean([rate for rate in found if rate is not None])
        for name, found in rates.items()
        if None not in found
    }
    _, _, clients = objective.partition("@")
    return means.get(clients) if clients else max(means.values(), default=None)


def rated(client_keys: Iterable[ClientKey], objective: str) -> bool:
    """Whether a life that is measured under these client keys gives a value of the objective."""
    _, _, clients = objective.partition("@")
    return not clients or any(key.concurrency == int(clients) for key in client_keys)


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean; at least one value. (The module statistics takes 10 ms to import.)"""
    return sum(values) / len(values)


def next_probe(values: Sequence[float | None]) -> int | None:
    """Which of the ordered places is measured next to find the maximum; None when it is found.

    The values are taken to rise to one maximum and fall behind it, so only the gaps beside the highest known
    value are narrowed. Because kernels have cliffs, one more place is looked at on each side of the maximum;
    where the known values have a second maximum, every place is measured.
    """
    known = [place for place, value in enumerate(values) if value is not None]
    unknown = [place for place, value in enumerate(values) if value is None]
    if not unknown:
        return None
    if not known:
        return len(values) // 2
    peak = max(known, key=lambda place: values[place] or 0.0)
    if not rises_and_falls([values[place] or 0.0 for place in known]):
        return min(unknown, key=lambda place: (abs(place - peak), place))
    beside = [gap for gap in (_gap(values, peak, -1), _gap(values, peak, 1)) if gap]
    if beside:
        return _middle(max(beside, key=len))
    for side in (range(peak - 2, -1, -1), range(peak + 2, len(values))):
        if side and all(values[place] is None for place in side):
            return _middle(list(side))
    return None


def rises_and_falls(values: Sequence[float]) -> bool:
    """Whether values rise to one maximum and fall behind it, up to noise."""
    if not values:
        return True
    peak = max(range(len(values)), key=lambda place: values[place])
    rising = all(after >= before * (1 - NOISE) for before, after in pairwise(values[: peak + 1]))
    falling = all(after <= before * (1 + NOISE) for before, after in pairwise(values[peak:]))
    return rising and falling


def _gap(values: Sequence[float | None], peak: int, step: int) -> list[int]:
    """Unknown places that follow one another beside the peak, on one side."""
    found = []
    place = peak + step
    while 0 <= place < len(values) and values[place] is None:
        found.append(place)
        place += step
    return found


def _middle(places: Sequence[int]) -> int:
    return places[len(places) // 2]
