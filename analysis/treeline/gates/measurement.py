"""Whether the figures of a load can be used at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treeline.gates.judging import Limits, judge, label, number
from treeline.records import Gate
from treeline.steps import StepResult


def failed_requests(points: Sequence[dict[str, Any]], canaries: Sequence[dict[str, Any]]) -> Gate:
    """No request of a point may have failed, and no canary gone without an answer."""
    if not points:
        return judge("failed_requests", None, 0, None, "nothing was measured")
    failed = sum(int(number(point, "failed") or 0) for point in points)
    of = sum(int(number(point, "requests") or 0) for point in points)
    # An answer that ended without content (it ran out of tokens while reasoning) is no failed request.
    errors = [
        str(canary.get("id")) for canary in canaries if canary.get("error") and not canary.get("finish")
    ]
    detail = f"{failed} of {of} measured requests failed"
    if errors:
        detail += f", and canaries {', '.join(errors)}"
    return judge("failed_requests", failed + len(errors), 0, failed + len(errors) == 0, detail)


def prefix_cache(points: Sequence[dict[str, Any]], limits: Limits) -> Gate:
    """The prefix cache must not have answered for the engine at any point."""
    shares = [(number(point, "prefix_cache_share"), label(point)) for point in points]
    known = [(share, where) for share, where in shares if share is not None]
    limit = limits.prefix_cache_share
    if not known:
        return judge("prefix_cache", None, f"< {limit:g}", None, "no point reports cached tokens")
    share, where = max(known)
    return judge("prefix_cache", round(share, 5), f"< {limit:g}", share < limit, f"highest at {where}")


def overrun(load: StepResult, limits: Limits) -> Gate:
    """Simulated timing holds only while the real computing fits into it."""
    engine = load.get("engine", dict) or {}
    share = number(engine, "overrun_share")
    if not engine.get("simulated"):
        return judge("engine_overrun", None, limits.overrun_share, None, "only simulated timing can overrun")
    return judge(
        "engine_overrun",
        share,
        limits.overrun_share,
        None if share is None else share <= limits.overrun_share,
        "steps whose real computing took longer than their simulated time",
    )


def points_measured(load: StepResult, points: Sequence[dict[str, Any]], asked: int) -> Gate:
    """Every point must have been measured to its end."""
    if load.text("outcome") != "done":
        return judge("points_measured", None, asked, None, "the load did not end by itself")
    whole = sum(point.get("complete") is not False for point in points)
    return judge("points_measured", whole, asked, whole >= asked, "client keys measured to their end")
