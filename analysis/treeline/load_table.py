"""What `treeline load` shows: a line while it runs, then a table of the points and remarks on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

SIMULATED = "engine=reference, simulated timing: tok/s and milliseconds say nothing about any GPU"
_HEAD = (
    "conc",
    "ctx",
    "rep",
    "ok/sent",
    "tok/s",
    "AL",
    "TTFT p50",
    "p99",
    "TPOT p50",
    "E2E p50",
    "peak",
    "cache",
)


def progress_line(progress: Mapping[str, Any]) -> str:
    """One line that says how far a load is; words that fit on a narrow terminal."""
    words = [f"{progress['phase']} {progress.get('point') or ''}".strip()]
    if progress.get("points_of"):
        words.append(
            f"point {min(progress['points_done'] + 1, progress['points_of'])}/{progress['points_of']}"
        )
    if progress.get("done") is not None:
        words.append(
            f"{progress['done']}/{progress['of'] if progress.get('of') is not None else '-'} requests"
        )
    if progress.get("failed"):
        words.append(f"{progress['failed']} failed")
    if progress.get("tok_s") is not None:
        words.append(f"{progress['tok_s']:.0f} tok/s")
    if progress.get("eta_s") is not None:
        words.append(f"{progress['eta_s']:.0f} s left")
    return ", ".join(words)


def rows(result: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The head and one row of texts for each point; what is not known is a dash."""
    return [_HEAD, *(_row(point) for point in result["points"])]


def notes(result: Mapping[str, Any]) -> list[str]:
    """What has to be said beside the table: how it ended, what failed, what disagrees, the soak."""
    found = []
    if result["engine"].get("simulated"):
        found.append(SIMULATED)
    if result["outcome"] != "done":
        found.append(f"{result['outcome']}: {result['msg']}")
    for point in result["points"]:
        found.extend(f"{_label(point)}: {text}" for text in _remarks(point))
    for one in result.get("convergence") or []:
        if one["converged"] is False:
            known = f"{one['relative_ci']:.1%}" if one["relative_ci"] is not None else "not at all"
            found.append(
                f"{_label(one)}: after {one['repeats']} repeats the mean is known to {known}, "
                f"not to {one['target']:.1%}"
            )
    if result.get("soak"):
        found.append(_soak(result["soak"]))
    wrong = [one for one in result["canaries"] if not one["ok"]]
    if wrong:
        found.append(f"{len(wrong)} of {len(result['canaries'])} canaries were answered wrong")
    return found


def _row(point: Mapping[str, Any]) -> tuple[str, ...]:
    share = point.get("prefix_cache_share")
    return (
        str(point["concurrency"]),
        _shown(point.get("context"), "d"),
        str(point["repeat"]),
        f"{point['ok']}/{point['requests']}",
        _shown(point.get("output_tok_s"), ".1f"),
        _shown(point.get("al"), ".3f"),
        _shown(point.get("ttft_p50_ms"), ".1f"),
        _shown(point.get("ttft_p99_ms"), ".1f"),
        _shown(point.get("tpot_p50_ms"), ".2f"),
        _shown(point.get("e2e_p50_ms"), ".0f"),
        _shown(point.get("server_peak_running"), "d"),
        "-" if share is None else f"{share:.1%}",
    )


def _remarks(point: Mapping[str, Any]) -> Iterable[str]:
    if not point["complete"]:
        yield f"cut short, {point['cancelled']} requests in flight"
    if point["failed"]:
        kinds = ", ".join(f"{count} x {kind}" for kind, count in sorted(point["errors"].items()))
        yield f"{point['failed']} requests failed ({kinds}); the first: {point['first_error']}"
    if point["retried"]:
        yield f"the engine turned requests away {point['retried']} times before it took them"
    good = point.get("goodput")
    if good:
        share = f"{good['good']} of {good['of']} requests"
        yield f"{share} within the objective, {good['requests_s']:.3g} a second"
    if (point.get("prefix_cache_share") or 0.0) >= 0.01:
        yield f"{point['prefix_cache_share']:.1%} of the prompt came from the prefix cache: not a measurement"
    if (point.get("late_p99_ms") or 0.0) > 50.0 and point["loop"] == "open":
        yield f"requests were sent up to {point['late_p99_ms']:.0f} ms (p99) after they were due"
    for check in point.get("cross_checks") or []:
        if check["agrees"] is False:
            yield (
                f"{check['name']} disagrees: {check['ours']:.4g} here, {check['theirs']:.4g} by the engine "
                f"({check['detail']}; tolerance {check['tolerance']:.0%})"
            )


def _soak(soak: Mapping[str, Any]) -> str:
    text = (
        f"soak at concurrency {soak['concurrency']}: {soak['duration_s']:.0f} of {soak['asked_s']:.0f} s, "
        f"{soak['ok']} of {soak['requests']} requests ok"
    )
    if soak["output_tok_s"] is not None:
        text += f", {soak['output_tok_s']:.1f} tok/s"
    if soak["decline"] is not None:
        text += f", last third / first third {soak['decline']:.3f}"
    return text


def _label(point: Mapping[str, Any]) -> str:
    text = f"concurrency {point['concurrency']}"
    text += f" context {point['context']}" if point.get("context") else ""
    return text + (f" repeat {point['repeat']}" if point.get("repeat", 1) > 1 else "")


def _shown(value: Any, style: str) -> str:
    return "-" if value is None else format(value, style)
