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


def _told(length: float, point: Mapping[str, Any], limits: Limits) -> float | None:
    """The acceptance length, or what is left of it where nothing is accepted; None where it cannot be told.

    Acceptance length counts the token of each request's prefill: a setting that accepts nothing has
    n / (n - 1) at n tokens, above the limit in short answers. Accepted drafts tell, where the engine counts
    them. Else the first token of each request is left out, and its last call with one token, for the bound on
    tokens may have cut that call: 1 wherever nothing is accepted, whatever the lengths.
    """
    tokens, calls = number(point, "completion_tokens") or 0.0, number(point, "verify_calls") or 0.0
    drafts, requests = number(point, "correct_drafts"), number(point, "ok")
    if drafts is not None:
        by_drafts = 1 + drafts / calls
        return length if by_drafts > limits.acceptance else min(length, by_drafts)
    if requests is None or (tokens - requests) / calls > limits.acceptance or length <= limits.acceptance:
        return length
    if calls - requests < limits.verify_calls:
        return None
    rest = (tokens - 2 * requests) / (calls - requests)
    return length if rest > limits.acceptance else rest


def _acceptance(points: Sequence[dict[str, Any]], log: LogFacts | None, limits: Limits) -> Gate:
    """The lowest acceptance of any point counts: a collapse may come with load only."""
    limit = f"> {limits.acceptance:g}"
    lengths = _lengths(points, limits)
    known = [(_told(length, point, limits), length, point) for length, point in lengths]
    told = [(value, length, point) for value, length, point in known if value is not None]
    if told:
        value, length, where = min(told, key=lambda found: found[0])
        detail = f"lowest of {len(told)} points, at {label(where)}"
        if value < length:
            detail += f"; its acceptance length of {length:.4f} comes of the prefill's tokens"
        return judge("acceptance", round(value, 4), limit, value > limits.acceptance, detail)
    if log is not None and log.class_ == "silent_corruption":
        detail = "from the decode lines of the log; the requests report too few verify calls"
        return judge("acceptance", 1.0, limit, False, detail)
    detail = f"fewer than {limits.verify_calls} verify calls at every point"
    if lengths:
        detail = "answers of so few tokens tell nothing: load with a higher treeline_max_tokens"
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
    lengths = [_told(length, one, limits) for length, one in _lengths(points, limits)]
    # A collapse from the start is the other gate's. A fall soon after the start leaves a mean just above it.
    above = bool(lengths) and all(length is not None and length > limits.acceptance for length in lengths)
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
