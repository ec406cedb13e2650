"""Check a point's figures against what the engine itself counted meanwhile.

Acceptance is counted by each request; the engine counts it too, three times over: in its metrics, in the
state of each data-parallel rank, and in its log. Each has its own way of being wrong (a mean over the whole
life, one rank of several, the wrong stretch of the log), so they decide nothing, and where they disagree by
more than a stated tolerance that is shown beside the measurement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

# Shares by which two figures may differ. Counters are exact but for requests of others (health probes) and
# the token that the prefill makes. Drafts are counted whole where the bound on tokens cuts the last call of a
# request: one call each is allowed for. A rank's mean is that of its life, weighted by its own batches.
COUNTERS = 0.01
METRICS_LENGTH = 0.03
DRAFTS = 0.02
RANKS = 0.1
LOG = 0.1


@dataclass(frozen=True)
class CrossCheck:
    """One figure by two accounts. ``agrees`` is None where the other account is not to be had."""

    name: str
    ours: float | None
    theirs: float | None
    tolerance: float
    agrees: bool | None
    detail: str = ""


def of_point(point: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The cross-checks of one point, from the looks that the load took at the engine (`load_looks`)."""
    looks = point.get("looks")
    looks = looks if isinstance(looks, Mapping) else {}
    checks = [_drafts(point), *_metrics(point, looks), _ranks(point, looks), _log(point, looks)]
    return [asdict(check) for check in checks]


def settle(result: dict[str, Any]) -> None:
    """Put the cross-checks into each point of a load's result, in place of the looks they were made from."""
    points = result.get("points")
    for point in points if isinstance(points, list) else []:
        if isinstance(point, dict):
            point["cross_checks"] = of_point(point)
            point.pop("looks", None)


def counters(page: str | None) -> dict[str, float]:
    """Sums over all labels (ranks, models) of a metrics page, by name without ``sglang:`` and ``_total``.

    A page that is none gives nothing.
    """
    if not page:
        return {}
    # Imported here: it takes longer than all else that a load does on the controller.
    from prometheus_client.parser import text_string_to_metric_families

    sums: dict[str, float] = {}
    try:
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                name = sample.name.removeprefix("sglang:").removesuffix("_total")
                if not name.endswith("_created"):
                    sums[name] = sums.get(name, 0.0) + float(sample.value)
    except (ValueError, KeyError, IndexError):
        return {}
    return sums


def _drafts(point: Mapping[str, Any]) -> CrossCheck:
    """A verify call gives the drafts that it accepted and one token; the last one of a request may be cut."""
    calls, drafts = _number(point, "verify_calls"), _number(point, "correct_drafts")
    tokens, requests = _number(point, "completion_tokens"), _number(point, "ok")
    theirs = 1 + drafts / calls if calls and drafts is not None else None
    tolerance = DRAFTS
    if theirs is not None and tokens and requests:
        tolerance = round(max(DRAFTS, requests * theirs / tokens), 4)
    detail = "1 + accepted drafts / verify calls"
    return _compared("al_by_drafts", _number(point, "al"), theirs, tolerance, detail)


def _metrics(point: Mapping[str, Any], looks: Mapping[str, Any]) -> list[CrossCheck]:
    before, after = counters(looks.get("metrics_before")), counters(looks.get("metrics_after"))
    deltas = {name: after[name] - before[name] for name in after if name in before}
    # What a request that failed left in the counters cannot be told.
    clean = point.get("complete") is not False and not point.get("failed") and not point.get("cancelled")
    why = "" if clean else "requests failed or were cut short: the counters hold their tokens too"
    if not after:
        why = "the engine has no metrics page (--enable-metrics)"
    if not clean:
        deltas = {}
    calls = deltas.get("spec_verify_calls")
    tokens = deltas.get("generation_tokens")
    length = tokens / calls if tokens is not None and calls else None
    return [
        _compared("al_by_metrics", _number(point, "al"), length, METRICS_LENGTH, why or "deltas of /metrics"),
        _compared(
            "tokens_by_metrics",
            _number(point, "completion_tokens"),
            tokens,
            COUNTERS,
            why or "delta of /metrics",
        ),
        _compared(
            "prompt_tokens_by_metrics",
            _number(point, "prompt_tokens"),
            deltas.get("prompt_tokens"),
            COUNTERS,
            why or "delta of /metrics",
        ),
    ]


def _ranks(point: Mapping[str, Any], looks: Mapping[str, Any]) -> CrossCheck:
    """Every rank counts: reading the first one alone is reading nothing where that was never asked.

    The means are of the engine's life so far. SGLang forgets them with its prefix cache: where that was
    emptied before this point they may be of the point alone, and the nearer of both figures is compared.
    """
    ranks = looks.get("ranks_after")
    ranks = ranks if isinstance(ranks, list) else []
    told = [float(value) for value in ranks if isinstance(value, int | float) and not isinstance(value, bool)]
    theirs = sum(told) / len(told) if told else None
    tokens, calls = _number(looks, "life_tokens"), _number(looks, "life_verify_calls")
    own: list[float] = []
    if tokens is not None and calls and looks.get("own_life") is not False:
        own.append(tokens / calls)  # else others were served before, and count in the means
    length = _number(point, "al")
    if point.get("cache_flushed") is True and length is not None:
        own.append(length)
    ours = min(own, key=lambda value: abs(value - (theirs or 0.0)), default=None)
    shown = ", ".join("null" if value is None else f"{value:.4g}" for value in ranks[:16])
    shown += ", ..." if len(ranks) > 16 else ""
    detail = f"means over the life so far, of {len(told)} of {len(ranks)} ranks: {shown}" if ranks else ""
    return _compared("al_by_ranks", ours, theirs, RANKS, detail)


def _log(point: Mapping[str, Any], looks: Mapping[str, Any]) -> CrossCheck:
    account = looks.get("log")
    account = account if isinstance(account, Mapping) else {}
    detail = f"{account['lines']} decode lines, weighted by running requests" if account.get("lines") else ""
    return _compared("al_by_log", _number(point, "al"), _number(account, "al"), LOG, detail)


def _compared(
    name: str, ours: float | None, theirs: float | None, tolerance: float, detail: str
) -> CrossCheck:
    if ours is None or theirs is None:
        return CrossCheck(name, ours, theirs, tolerance, None, detail or "not available")
    agrees = abs(ours - theirs) <= tolerance * max(abs(ours), abs(theirs))
    return CrossCheck(name, ours, round(theirs, 6), tolerance, agrees, detail)


def _number(values: Mapping[str, Any], name: str) -> float | None:
    value = values.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
