"""Whether drafts are verified and accepted: against a floor, against the anchor, and over a point's time.

Nothing here looks at what the text says: a setting may accept well and write nonsense, or be right and accept
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from treeline.gates.judging import Limits, LogFacts, judge, label, number
from treeline.records import Gate

OFF = "speculation is off in this trial"
_STRETCH = 3
# Chunks of a stream for each verify call: fewer where an engine or a network joins steps.
_JOINED = (0.9, 1.5)


def speculation_gates(
    points: Sequence[dict[str, Any]],
    log: LogFacts | None,
    limits: Limits,
    anchor_al: float | Mapping[str, float] | None,
    speculative: bool,
) -> tuple[Gate, ...]:
    """speculation, acceptance, acceptance_vs_anchor and acceptance_within_run."""
    floor, ratio = f"> {limits.acceptance:g}", f">= {limits.anchor_ratio:g}"
    if not speculative:
        return (
            judge("speculation", None, "> 0", None, OFF),
            judge("acceptance", None, floor, None, OFF),
            judge("acceptance_vs_anchor", None, ratio, None, OFF),
            judge("acceptance_within_run", None, f"> {limits.within_run:g}", None, OFF),
        )
    return (
        _speculation(points, log),
        _acceptance(points, log, limits),
        _against_anchor(points, anchor_al, limits),
        _within_run(points, log, limits),
    )


def acceptance_length(points: Sequence[dict[str, Any]]) -> float | None:
    """Completion tokens / verify calls over points that report both; None without any verify call."""
    pairs = [(number(p, "completion_tokens"), number(p, "verify_calls")) for p in points]
    known = [(tokens, calls) for tokens, calls in pairs if tokens is not None and calls]
    calls = sum(calls for _, calls in known)
    return round(sum(tokens for tokens, _ in known) / calls, 4) if calls else None


def _speculation(points: Sequence[dict[str, Any]], log: LogFacts | None) -> Gate:
    """Whether the engine verified drafts at all. A count of 0 verify calls means that it silently did not."""
    counts = [number(point, "verify_calls") for point in points]
    known = [int(count) for count in counts if count is not None]
    tokens = sum(int(number(point, "completion_tokens") or 0) for point in points)
    if known and tokens:
        return judge(
            "speculation", sum(known), "> 0", sum(known) > 0, "verify calls that the requests report"
        )
    if log is not None and log.class_ == "spec_disabled":
        detail = "no decode line of the log has an acceptance length"
        return judge("speculation", 0, "> 0", False, detail)
    if log is not None and log.accept_lens:
        detail = "decode lines with an acceptance length; the requests report no verify calls"
        return judge("speculation", len(log.accept_lens), "> 0", True, detail)
    return judge("speculation", None, "> 0", None, "neither requests nor log speak of verify calls")


def _lengths(points: Sequence[dict[str, Any]], limits: Limits) -> list[tuple[float, dict[str, Any]]]:
    """Acceptance lengths of the points with enough verify calls."""
    found = []
    for point in points:
        tokens, calls = number(point, "completion_tokens"), number(point, "verify_calls")
        if tokens is not None and calls is not None and calls >= limits.verify_calls:
            found.append((tokens / calls, point))
    return found


def _acceptance(points: Sequence[dict[str, Any]], log: LogFacts | None, limits: Limits) -> Gate:
    """The lowest acceptance length of any point counts: a collapse may come with load only."""
    limit = f"> {limits.acceptance:g}"
    lengths = _lengths(points, limits)
    if lengths:
        value, where = min(lengths, key=lambda found: found[0])
        detail = f"lowest of {len(lengths)} points, at {label(where)}"
        return judge("acceptance", round(value, 4), limit, value > limits.acceptance, detail)
    if log is not None and log.class_ == "silent_corruption":
        detail = "from the decode lines of the log; the requests report too few verify calls"
        return judge("acceptance", 1.0, limit, False, detail)
    detail = f"fewer than {limits.verify_calls} verify calls at every point"
    return judge("acceptance", None, limit, None, detail)


def _against_anchor(
    points: Sequence[dict[str, Any]], anchor_al: float | Mapping[str, float] | None, limits: Limits
) -> Gate:
    """The worst ratio to the anchor's acceptance on the same prompts."""
    limit = f">= {limits.anchor_ratio:g}"
    if not anchor_al:
        return judge("acceptance_vs_anchor", None, limit, None, "no anchor was measured on these prompts")
    ratios = []
    for length, point in _lengths(points, limits):
        reference = anchor_al.get(point_name(point)) if isinstance(anchor_al, Mapping) else anchor_al
        if reference:
            ratios.append((length / reference, length, reference, label(point)))
    if not ratios:
        return judge("acceptance_vs_anchor", None, limit, None, "no point can be compared with the anchor's")
    ratio, length, reference, where = min(ratios)
    detail = f"acceptance {length:.2f} against the anchor's {reference:.2f}, at {where}"
    return judge("acceptance_vs_anchor", round(ratio, 4), limit, ratio >= limits.anchor_ratio, detail)


def point_name(point: Mapping[str, Any]) -> str:
    """How a point is keyed in a mapping of figures: ``32``, or ``32@4096`` where it has a context."""
    context = point.get("context")
    return f"{point.get('concurrency')}" + (f"@{context}" if context else "")


def _within_run(points: Sequence[dict[str, Any]], log: LogFacts | None, limits: Limits) -> Gate:
    """The lowest acceptance of three neighbouring windows of any point, and what the log says of a fall."""
    name, limit = "acceptance_within_run", f"> {limits.within_run:g}"
    found = [(value, label(point)) for point in points if (value := _lowest(point, limits)) is not None]
    value, where = min(found, default=(None, ""))
    sound = value is None or value > limits.within_run
    lengths = [length for length, _ in _lengths(points, limits)]
    # A collapse from the start is the other gate's. A fall soon after the start leaves a mean just above it.
    above = bool(lengths) and min(lengths) > limits.acceptance
    if sound and above and log is not None and log.class_ == "silent_corruption" and log.accept_lens:
        detail = "from the decode lines of the log: accepted at first, later nothing any more"
        return judge(name, min(log.accept_lens), limit, False, detail)
    if value is None:
        detail = "no point tells its acceptance over time, or acceptance is too low to see a fall"
        return judge(name, None, limit, None, detail)
    detail = f"lowest in {_STRETCH} neighbouring windows, at {where}"
    return judge(name, round(value, 4), limit, sound, detail)


def _lowest(point: Mapping[str, Any], limits: Limits) -> float | None:
    """The lowest acceptance of three neighbouring windows that hold enough verify calls."""
    windows = [
        (float(one[0]), float(one[1]))
        for one in point.get("al_windows") or []
        if isinstance(one, list | tuple) and len(one) == 2
    ]
    calls, whole = number(point, "verify_calls"), acceptance_length([dict(point)])
    chunks = sum(count for _, count in windows)
    if not calls or not chunks or whole is None or whole < limits.within_run_of:
        return None
    joined = calls / chunks
    if not _JOINED[0] <= joined <= _JOINED[1]:
        return None
    lowest = None
    for at in range(len(windows) - _STRETCH + 1):
        stretch = windows[at : at + _STRETCH]
        verified = joined * sum(count for _, count in stretch)
        if verified >= limits.window_calls:
            value = sum(tokens for tokens, _ in stretch) / verified
            lowest = value if lowest is None else min(lowest, value)
    return lowest
