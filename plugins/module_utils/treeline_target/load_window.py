"""The stretch of a run over which throughput is taken: ramp-up and drain would dilute the figure.

In a closed loop it is the time while 0.8 of the peak is in flight, the rule of SGLang's steady-state
benchmark; in an open loop, where nobody keeps up a number in flight, the time from the first request's due
time to the last one's.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Iterable, Optional, Sequence

PEAK_SHARE = 0.8


@dataclass(frozen=True)
class Window:
    """Start and end (seconds, the clock of the intervals), peak of requests in flight, tokens in between.

    The window is the envelope of the times at or above the threshold, `share_at_peak` how much of it was
    there: the short gaps between the requests of one client belong to a closed loop.
    """

    start: float
    end: float
    peak: int
    share_at_peak: float
    tokens: int
    rule: str = "active >= 0.8 x peak"

    @property
    def duration_s(self) -> float:
        return self.end - self.start

    @property
    def tokens_per_s(self) -> Optional[float]:
        """Output tokens per second of the window; None when it has no length or no token."""
        return self.tokens / self.duration_s if self.duration_s > 0 and self.tokens else None

    def as_dict(self, origin: float) -> dict[str, Any]:
        """For results: times relative to `origin`."""
        values = asdict(self)
        values["start"] = round(self.start - origin, 6)
        values["end"] = round(self.end - origin, 6)
        values["duration_s"] = round(self.duration_s, 6)
        values["share_at_peak"] = round(self.share_at_peak, 4)
        return values


def steady(
    intervals: Sequence[tuple[float, float]],
    ticks: Iterable[Sequence[tuple[float, int]]],
) -> Optional[Window]:
    """The window of requests in flight over `intervals` (sent, ended); None without one.

    `ticks` gives for each request (time, tokens so far), in time order; tokens count when they arrived.
    """
    events = sorted([(sent, 1) for sent, _ in intervals] + [(ended, -1) for _, ended in intervals])
    peak = _peak(events)
    if peak == 0:
        return None
    above, first, last, since, active = 0.0, None, None, None, 0
    for at, step in events:
        active += step
        if active >= PEAK_SHARE * peak:
            first = at if first is None else first
            since = at if since is None else since
        elif since is not None:
            above += at - since
            since, last = None, at
    if first is None or last is None or last <= first:
        return None
    return Window(first, last, peak, above / (last - first), _tokens_between(first, last, ticks))


def arrival_span(
    intervals: Sequence[tuple[float, float]],
    due: Sequence[float],
    ticks: Iterable[Sequence[tuple[float, int]]],
) -> Optional[Window]:
    """The window of an open loop: from the first to the last of the times that requests were due.

    `share_at_peak` is 1: nothing is asked of the number in flight. None when it has no length.
    """
    if not due or max(due) <= min(due):
        return None
    events = sorted([(sent, 1) for sent, _ in intervals] + [(ended, -1) for _, ended in intervals])
    first, last = min(due), max(due)
    tokens = _tokens_between(first, last, ticks)
    return Window(first, last, _peak(events), 1.0, tokens, "first to last due time")


def _peak(events: Sequence[tuple[float, int]]) -> int:
    peak = active = 0
    for _, step in events:
        active += step
        peak = max(peak, active)
    return peak


def _tokens_between(first: float, last: float, ticks: Iterable[Sequence[tuple[float, int]]]) -> int:
    total = 0
    for request in ticks:
        before = 0
        for at, tokens in request:
            if first < at <= last:
                total += tokens - before
            before = tokens
    return total
