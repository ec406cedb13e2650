"""The gates: a service that is up is not yet good.

Every gate is evaluated and recorded with its value, limit and verdict, also after another has failed.
Acceptance and correctness are separate gates: each catches what the other misses. A gate with too little
to go on says ``not available``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from treeline.records import Gate, GateVerdict, Status
from treeline.steps import StepResult, Steps

WIDTH_MISMATCH = "captured verify width"
SHIPPED_REFERENCE = "reference: the answer shipped with the canary, baseline={baseline}"


class LogFacts(Protocol):
    """What gates and verdicts read of ``treeline.signatures.LogVerdict``."""

    @property
    def class_(self) -> str: ...
    @property
    def phase(self) -> str | None: ...
    @property
    def kind(self) -> str: ...
    @property
    def first_error(self) -> str | None: ...
    @property
    def rank(self) -> int | None: ...
    @property
    def captured_bs(self) -> int | None: ...
    @property
    def captured_width(self) -> int | None: ...
    @property
    def secondary(self) -> tuple[str, ...]: ...
    @property
    def advice(self) -> str: ...
    @property
    def accept_lens(self) -> tuple[float, ...]: ...


@dataclass(frozen=True)
class Limits:
    """What the gates allow. Shares are 0..1, the acceptance length is in tokens per verify call."""

    canary_share: float = 0.6
    canaries: int = 3
    garbled_share: float = 0.2
    outputs: int = 8
    acceptance: float = 1.05
    verify_calls: int = 20
    prefix_cache_share: float = 0.01
    overrun_share: float = 0.2


LIMITS = Limits()

# What a failed gate makes of a trial, in order of precedence.
STATUS_OF_GATE: tuple[tuple[str, Status], ...] = (
    ("new_invocation", "mismatch"),
    ("trial_id", "mismatch"),
    ("served_arguments", "mismatch"),
    ("verify_width", "mismatch"),
    ("canaries_single", "garbled"),
    ("canaries_busiest", "garbled"),
    ("garbled_outputs", "garbled"),
    ("speculation", "fallback"),
    ("acceptance", "accept_collapse"),
    ("acceptance_vs_anchor", "accept_collapse"),
    ("failed_requests", "measurement_invalid"),
    ("prefix_cache", "measurement_invalid"),
    ("engine_overrun", "measurement_invalid"),
    ("points_measured", "measurement_invalid"),
)


def evaluate(
    steps: Steps,
    log: LogFacts | None,
    *,
    trial_id: str,
    points_asked: int,
    baseline: str = "skip",
    limits: Limits = LIMITS,
) -> tuple[Gate, ...]:
    """All gates of one trial, in the order in which they guard it.

    Args:
        steps: what the trial's modules returned.
        log: what the journal says, where it was fetched.
        trial_id: what the running unit must carry in its environment.
        points_asked: client keys of the item.
        baseline: how references were asked for; until baselines are stored, the shipped answers serve.
        limits: what is allowed.
    """
    canaries = steps.load.mappings("canaries")
    single = [canary for canary in canaries if canary.get("phase") != "busiest"]
    busiest = [canary for canary in canaries if canary.get("phase") == "busiest"]
    reference = SHIPPED_REFERENCE.format(baseline=baseline)
    points = steps.load.mappings("points")
    return (
        *_identity(steps, log, trial_id),
        _canary_gate("canaries_single", single, reference, limits),
        _canary_gate("canaries_busiest", busiest, reference, limits),
        _garbled(points, limits),
        _speculation(points, log),
        _acceptance(points, log, limits),
        Gate(
            name="acceptance_vs_anchor",
            verdict="not available",
            limit=0.6,
            detail="no anchor was measured on these prompts",
        ),
        _failed_requests(points, canaries),
        _prefix_cache(points, limits),
        _overrun(steps.load, limits),
        _points_measured(steps.load, points, points_asked),
    )


def acceptance_length(points: Sequence[dict[str, Any]]) -> float | None:
    """Completion tokens / verify calls over points that report both; None without any verify call."""
    pairs = [(_number(p, "completion_tokens"), _number(p, "verify_calls")) for p in points]
    known = [(tokens, calls) for tokens, calls in pairs if tokens is not None and calls]
    calls = sum(calls for _, calls in known)
    return round(sum(tokens for tokens, _ in known) / calls, 4) if calls else None


def _identity(steps: Steps, log: LogFacts | None, trial_id: str) -> list[Gate]:
    """The service answers, and it is this trial's: a new process with this trial's id and arguments."""
    ready = steps.ready
    outcome = ready.text("outcome")
    answered = outcome in ("ready", "mismatch")
    previous = steps.begin.text("previous_invocation_id")
    invocation = ready.text("invocation_id")
    proof = ready.get("proof", dict) or {}
    shown_id = proof.get("trial_id_in_env")
    # The trial id and the width have gates of their own.
    others = [
        entry
        for entry in ready.mappings("mismatches")
        if entry.get("name") != WIDTH_MISMATCH and "TREELINE_TRIAL_ID" not in str(entry.get("name"))
    ]
    width = ready.get("captured_width", int) or (log.captured_width if log else None)
    expected = proof.get("expected_width")
    return [
        _judge(
            "ready", outcome, "ready", answered if outcome else None, ready.message if not answered else ""
        ),
        _judge(
            "new_invocation",
            invocation,
            f"other than {previous or 'none'}",
            None if invocation is None else invocation != previous,
        ),
        _judge("trial_id", shown_id, trial_id, shown_id == trial_id if answered and proof else None),
        _judge(
            "served_arguments",
            len(others) if answered else None,
            0,
            not others if answered else None,
            describe_mismatches(others),
        ),
        _judge(
            "verify_width", width, expected, width == expected if answered and width and expected else None
        ),
    ]


def describe_mismatches(mismatches: Sequence[dict[str, Any]]) -> str:
    """Readable differences between what was asked and what is served."""
    return "; ".join(
        f"{entry.get('name')}: asked for {entry.get('expected')!r}, served {entry.get('served')!r}"
        for entry in mismatches
    )


def _canary_gate(name: str, canaries: Sequence[dict[str, Any]], reference: str, limits: Limits) -> Gate:
    """Share of right answers; a canary without an answer says nothing about the text."""
    answered = [canary for canary in canaries if not canary.get("error")]
    wrong = [str(canary.get("id")) for canary in answered if not canary.get("ok")]
    share = 1 - len(wrong) / len(answered) if answered else None
    detail = f"{len(answered) - len(wrong)} of {len(answered)} right; {reference}"
    if wrong:
        detail += f"; wrong: {', '.join(wrong)}"
    enough = share is not None and len(answered) >= limits.canaries
    return _judge(
        name,
        None if share is None else round(share, 3),
        limits.canary_share,
        share >= limits.canary_share if share is not None and enough else None,
        detail if answered else "no canary was answered",
    )


def _garbled(points: Sequence[dict[str, Any]], limits: Limits) -> Gate:
    """The worst point counts: corruption may come with load only."""
    shares = []
    for point in points:
        seen = point.get("garble") if isinstance(point.get("garble"), dict) else {}
        flagged, total = _number(seen or {}, "flagged"), _number(seen or {}, "of")
        if flagged is not None and total is not None and total >= limits.outputs:
            shares.append((flagged / total, _label(point), int(flagged), int(total)))
    if not shares:
        return _judge("garbled_outputs", None, limits.garbled_share, None, "too few outputs were examined")
    share, where, flagged, total = max(shares)
    return _judge(
        "garbled_outputs",
        round(share, 4),
        limits.garbled_share,
        share <= limits.garbled_share,
        f"{flagged} of {total} outputs look garbled at {where}",
    )


def _speculation(points: Sequence[dict[str, Any]], log: LogFacts | None) -> Gate:
    """Whether the engine verified drafts at all. A count of 0 verify calls means that it silently did not."""
    counts = [_number(point, "verify_calls") for point in points]
    known = [int(count) for count in counts if count is not None]
    tokens = sum(int(_number(point, "completion_tokens") or 0) for point in points)
    if known and tokens:
        return _judge(
            "speculation", sum(known), "> 0", sum(known) > 0, "verify calls that the requests report"
        )
    if log is not None and log.class_ == "spec_disabled":
        detail = "no decode line of the log has an acceptance length"
        return _judge("speculation", 0, "> 0", False, detail)
    if log is not None and log.accept_lens:
        detail = "decode lines with an acceptance length; the requests report no verify calls"
        return _judge("speculation", len(log.accept_lens), "> 0", True, detail)
    return _judge("speculation", None, "> 0", None, "neither requests nor log speak of verify calls")


def _acceptance(points: Sequence[dict[str, Any]], log: LogFacts | None, limits: Limits) -> Gate:
    """The lowest acceptance length of any point counts: a collapse may come with load only."""
    lengths = []
    for point in points:
        tokens, calls = _number(point, "completion_tokens"), _number(point, "verify_calls")
        if tokens is not None and calls is not None and calls >= limits.verify_calls:
            lengths.append((tokens / calls, _label(point)))
    if lengths:
        value, where = min(lengths)
        detail = f"lowest of {len(lengths)} points, at {where}"
        return _judge(
            "acceptance", round(value, 4), f"> {limits.acceptance:g}", value > limits.acceptance, detail
        )
    if log is not None and log.class_ == "silent_corruption":
        detail = "from the decode lines of the log; the requests report too few verify calls"
        return _judge("acceptance", 1.0, f"> {limits.acceptance:g}", False, detail)
    detail = f"fewer than {limits.verify_calls} verify calls at every point"
    return _judge("acceptance", None, f"> {limits.acceptance:g}", None, detail)


def _failed_requests(points: Sequence[dict[str, Any]], canaries: Sequence[dict[str, Any]]) -> Gate:
    if not points:
        return _judge("failed_requests", None, 0, None, "nothing was measured")
    failed = sum(int(_number(point, "failed") or 0) for point in points)
    of = sum(int(_number(point, "requests") or 0) for point in points)
    # An answer that ended without content (it ran out of tokens while reasoning) is no failed request.
    errors = [
        str(canary.get("id")) for canary in canaries if canary.get("error") and not canary.get("finish")
    ]
    detail = f"{failed} of {of} measured requests failed"
    if errors:
        detail += f", and canaries {', '.join(errors)}"
    return _judge("failed_requests", failed + len(errors), 0, failed + len(errors) == 0, detail)


def _prefix_cache(points: Sequence[dict[str, Any]], limits: Limits) -> Gate:
    shares = [(_number(point, "prefix_cache_share"), _label(point)) for point in points]
    known = [(share, where) for share, where in shares if share is not None]
    limit = limits.prefix_cache_share
    if not known:
        return _judge("prefix_cache", None, f"< {limit:g}", None, "no point reports cached tokens")
    share, where = max(known)
    return _judge("prefix_cache", round(share, 5), f"< {limit:g}", share < limit, f"highest at {where}")


def _overrun(load: StepResult, limits: Limits) -> Gate:
    engine = load.get("engine", dict) or {}
    share = _number(engine, "overrun_share")
    if not engine.get("simulated"):
        return _judge("engine_overrun", None, limits.overrun_share, None, "only simulated timing can overrun")
    return _judge(
        "engine_overrun",
        share,
        limits.overrun_share,
        None if share is None else share <= limits.overrun_share,
        "steps whose real computing took longer than their simulated time",
    )


def _points_measured(load: StepResult, points: Sequence[dict[str, Any]], asked: int) -> Gate:
    if load.text("outcome") != "done":
        return _judge("points_measured", None, asked, None, "the load did not end by itself")
    whole = sum(point.get("complete") is not False for point in points)
    return _judge("points_measured", whole, asked, whole >= asked, "client keys measured to their end")


def _judge(name: str, value: Any, limit: Any, passed: bool | None, detail: str = "") -> Gate:
    verdict: GateVerdict = "not available" if passed is None else "passed" if passed else "failed"
    return Gate(name=name, verdict=verdict, value=_scalar(value), limit=_scalar(limit), detail=detail)


def _scalar(value: Any) -> float | int | str | bool | None:
    return value if value is None or isinstance(value, float | int | str | bool) else str(value)


def _number(values: dict[str, Any], name: str) -> float | None:
    value = values.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _label(point: dict[str, Any]) -> str:
    context = point.get("context")
    return f"concurrency {point.get('concurrency')}" + (f" context {context}" if context else "")
