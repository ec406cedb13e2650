"""How far a sweep is: lines for people. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from treeline.keys import Item
from treeline.records import Finished


def duration(seconds: float) -> str:
    """Seconds for people: ``45s``, ``1m20s``, ``42m``, ``3h05m``; the finer the shorter."""
    whole = max(round(seconds), 0)
    if whole < 60:
        return f"{whole}s"
    if whole < 600:
        return f"{whole // 60}m{whole % 60:02d}s" if whole % 60 else f"{whole // 60}m"
    minutes = round(whole / 60)
    return f"{minutes}m" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02d}m"


def remaining_s(trials: int, trial_s: float, hosts: int = 1) -> float:
    """Seconds that ``trials`` trials of ``trial_s`` seconds take on ``hosts`` hosts that share them."""
    return -(-max(trials, 0) // max(hosts, 1)) * trial_s


def time_left(
    finished: Iterable[Finished], remaining: int, hosts: int, forecast_s: float | None
) -> float | None:
    """Seconds until ``remaining`` more trials are done by ``hosts`` hosts; None where nothing tells.

    Trials measured in this sweep count; before the first of them the forecast of one trial does.
    """
    measured = [line.times.total_s for line in finished if line.times.total_s and line.status != "void"]
    each = sum(measured) / len(measured) if measured else forecast_s
    return None if each is None else remaining_s(remaining, each, hosts)


def trial_line(host: str, item: Item, k: int, n: int, elapsed_s: float, left_s: float | None) -> str:
    """Said when a trial begins."""
    left = "time left not known yet" if left_s is None else f"about {duration(left_s)} left"
    return (
        f"[{host}] trial {k} of {n}  {item.key.label}  ({item.purpose}: {item.reason})  "
        f"elapsed {duration(elapsed_s)}, {left}"
    )


def verdict_line(line: Finished) -> str:
    """Said when a trial is on record, such as ``[lab1] b8 k4 m128 graphs on: ok, acceptance length 4.5``."""
    words = f"[{line.host}] {line.key.short_label}: {line.status}"
    if line.status == "ok":
        return words + _figures(line)
    if line.class_:
        words += f" {line.class_}"
    words += f" in {line.phase}" if line.phase else f" at step {line.step}"
    places = []
    if line.rank is not None:
        places.append(f"rank {line.rank}")
    if line.captured_bs is not None:
        places.append(f"bs {line.captured_bs}")
    if places:
        words += f" ({', '.join(places)})"
    return f"{words}: {line.first_error.splitlines()[0]}" if line.first_error else words


def _figures(line: Finished) -> str:
    figures = "" if line.al is None else f", acceptance length {line.al:.2f}"
    rates = [f"{rate:.0f} tok/s at {name}" for name, rate in line.throughput.items() if rate is not None]
    if rates:
        figures += f", {', '.join(rates)}"
    return figures + (" (simulated timing)" if line.simulated else "")
