"""Acceptance over the time of a point, from the chunks of its streams."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from treeline_target import acceptance_windows

Stream = tuple[list[float], list[int]]


@st.composite
def streams(draw: st.DrawFn) -> list[Stream]:
    found = []
    for _ in range(draw(st.integers(0, 5))):
        gaps = draw(st.lists(st.floats(0, 3), max_size=20))
        gains = draw(st.lists(st.integers(0, 8), min_size=len(gaps), max_size=len(gaps)))
        now, sofar, times, counts = draw(st.floats(0, 100)), 0, [], []
        for gap, gain in zip(gaps, gains, strict=True):
            now, sofar = now + gap, sofar + gain
            times.append(now)
            counts.append(sofar)
        found.append((times, counts))
    return found


@given(streams())
def test_nothing_is_lost_but_the_first_chunks(given_streams: list[Stream]) -> None:
    windows = acceptance_windows.of(given_streams)
    if not windows:
        spans = [times[-1] - times[0] for times, _ in given_streams if len(times) > 1]
        assert len({times[0] for times, _ in given_streams if len(times) > 1}) <= 1
        assert not any(spans)
        return
    assert len(windows) == acceptance_windows.WINDOWS
    kept = [one for one in given_streams if len(one[0]) > 1]
    assert sum(chunks for _, chunks in windows) == sum(len(times) - 1 for times, _ in kept)
    assert sum(tokens for tokens, _ in windows) == sum(counts[-1] - counts[0] for _, counts in kept)


def test_a_fall_in_the_middle_shows_in_its_windows() -> None:
    times = [float(at) for at in range(33)]
    counts = [1 + 4 * min(at, 16) + max(0, at - 16) for at in range(33)]
    windows = acceptance_windows.of([(times, counts)] * 3, count=4)
    assert [round(tokens / chunks, 1) for tokens, chunks in windows] == [4.0, 4.0, 1.4, 1.0]
