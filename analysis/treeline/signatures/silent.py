"""What is wrong without any error line: nothing accepted, speculation off, a wrong width, no tokens."""

from __future__ import annotations

from collections.abc import Iterator

from treeline.signatures.acceptance import ENOUGH, FLOOR, collapsed, floor_run
from treeline.signatures.life import Life
from treeline.signatures.verdict import Silence


def silences(life: Life, expected_width: int | None = None) -> tuple[Silence, ...]:
    """Return what a life's log shows to be wrong without saying so.

    expected_width: verify width in tokens per request; None: the tree worker's own word for it, if printed.
    """
    return tuple(_silences(life, expected_width))


def _silences(life: Life, expected_width: int | None) -> Iterator[Silence]:
    decoding = life.decoding
    lens = decoding.lens
    if collapsed(lens):
        run = floor_run(lens)
        seen = f"accept len is at most {FLOOR} in the last {run} of {len(lens)} decode lines"
        if run == len(lens):
            yield Silence("acceptance_floor", seen)
        else:
            yield Silence("acceptance_collapse", f"{seen}, and was up to {max(lens):.2f} before")
    width = life.captures.width()
    if decoding.asked and not lens and decoding.lines >= ENOUGH - 1:
        captured = "" if width is None else f"; graphs were captured for {width} tokens per request"
        seen = f"speculation was asked for, none of {decoding.lines} decode lines has an accept len"
        yield Silence("speculation_off", seen + captured)
    expected = expected_width if expected_width is not None else decoding.tree_width
    if width is not None and expected is not None and width != expected:
        by = "expected" if expected_width is not None else "what the tree worker says"
        yield Silence("width", f"graphs were captured for {width} tokens per request, {by} is {expected}")
    if stalled(life):
        first, last = life.unanswered[0], life.unanswered[-1]
        at = f"lines {first.line_no} to {last.line_no}" if first is not last else f"line {first.line_no}"
        yield Silence("no_tokens", f"health checks got no token ({at}), and no decode line follows")


def stalled(life: Life) -> bool:
    """Tell whether the last health checks went without an answer and nothing was decoded since."""
    last = life.decoding.last
    return bool(life.unanswered) and (last is None or last < life.unanswered[-1].offset)
