"""Acceptance over the time of a point, from the chunks of its streams: a collapse in mid-run shows here.

The sums of a point hide it, and so may the sums of single requests. A stream brings one chunk for each
verify step, with the tokens so far; where an engine or a network joins steps, there are fewer chunks than
verify calls, and whoever reads the windows corrects for that.
"""

from __future__ import annotations

from typing import Iterable, Sequence

WINDOWS = 16


def of(streams: Iterable[tuple[Sequence[float], Sequence[int]]], count: int = WINDOWS) -> list[list[int]]:
    """[tokens, chunks] of each of `count` equal stretches from the first chunk of all streams to the last.

    A stream is the times (seconds, ascending) and the tokens so far at each of its chunks. The first chunk
    of a stream is the prefill's and counts nowhere. No windows where all chunks came at once.
    """
    kept = [(times, tokens) for times, tokens in streams if len(times) > 1]
    if not kept:
        return []
    begin, end = min(times[0] for times, _ in kept), max(times[-1] for times, _ in kept)
    if end <= begin:
        return []
    windows = [[0, 0] for _ in range(count)]
    for times, tokens in kept:
        for at in range(1, len(times)):
            window = windows[min(count - 1, int((times[at] - begin) / (end - begin) * count))]
            window[0] += tokens[at] - tokens[at - 1]
            window[1] += 1
    return windows
