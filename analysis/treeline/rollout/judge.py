"""Whether a host that has the new configuration may keep it: the gates, and its speed against the record."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import Any

from treeline import gates
from treeline.records import Gate
from treeline.rollout.records import Chosen, Reference
from treeline.steps import Steps, step_result

# Lives of one configuration on one machine differ by about this much (standard deviation of the logarithm).
# Used while fewer than three lives are on record.
LIFE_SD = 0.02
# Normal quantile of a two-sided interval of 95 %.
_Z = 1.96
# Gates about the identity of a trial; a production service has none of that, its arguments are proven apart.
_OF_A_TRIAL = ("ready", "new_invocation", "trial_id", "served_arguments", "verify_width")
# Gates that say the figures are no measurement. That is no fault of the host: its speed is not compared then.
_OF_THE_FIGURES = ("engine_overrun", "prefix_cache")


@dataclass(frozen=True)
class Speed:
    """A host's speed against the record, as a ratio with its interval; None where nothing can be compared."""

    ratio: float | None
    low: float | None
    high: float | None
    text: str

    @property
    def slower(self) -> bool:
        """Whether the host is clearly slower: the whole interval lies below 1."""
        return self.high is not None and self.high < 1


@dataclass(frozen=True)
class Judgement:
    """The verdict on one host with what it rests on."""

    passed: bool
    reason: str
    gates: tuple[Gate, ...]
    speed: Speed


def judge(load: Mapping[str, Any], chosen: Chosen) -> Judgement:
    """Judge what the load module returned on a production service.

    Args:
        load: its result; a load that did not run to its end is a failure.
        chosen: what the host was given, with the point to compare with.
    """
    steps = Steps(load=step_result(load))
    recorded_al = chosen.reference.al if chosen.reference is not None else None
    evaluated = gates.evaluate(steps, None, trial_id="", points_asked=1, anchor_al=recorded_al)
    judged = tuple(gate for gate in evaluated if gate.name not in _OF_A_TRIAL)
    spoilt = [gate.name for gate in judged if gate.verdict == "failed" and gate.name in _OF_THE_FIGURES]
    if spoilt:
        speed = Speed(None, None, None, f"not compared with the record: gate {', '.join(spoilt)}")
    else:
        speed = compare_speed(_speeds(steps.load.mappings("points"), chosen.reference), chosen.reference)
    reasons = [
        f"gate {gate.name}: {gate.value}, allowed {gate.limit} ({gate.detail})"
        for gate in judged
        if gate.verdict == "failed" and gate.name not in _OF_THE_FIGURES
    ]
    if steps.load.text("outcome") != "done":
        reasons.insert(0, f"the load did not run to its end: {steps.load.message or 'no message'}")
    if speed.slower:
        reasons.append(f"clearly slower than recorded: {speed.text}")
    return Judgement(not reasons, "; ".join(reasons) or "gates passed", judged, speed)


def compare_speed(seen: Sequence[float], reference: Reference | None) -> Speed:
    """Compare throughput on a host with the recorded lives by an interval, not by a fixed share.

    The interval has the spread between lives (of the recorded ones and of this one) and, where the point was
    repeated, the noise inside this life.
    """
    if reference is None or not reference.tok_s or not seen:
        return Speed(None, None, None, "no recorded point to compare with")
    recorded = [math.log(value) for value in reference.tok_s]
    now = [math.log(value) for value in seen if value > 0]
    if not now:
        return Speed(None, None, None, "the host gave no throughput")
    between = variance(recorded) if len(recorded) >= 3 else LIFE_SD**2
    within = variance(now) / len(now) if len(now) >= 2 else 0.0
    half = _Z * math.sqrt(between * (1 + 1 / len(recorded)) + within)
    middle = fmean(now) - fmean(recorded)
    ratio, low, high = (math.exp(value) for value in (middle, middle - half, middle + half))
    lives = f"{len(recorded)} recorded {'life' if len(recorded) == 1 else 'lives'}"
    text = (
        f"{math.exp(fmean(now)):.4g} against {math.exp(fmean(recorded)):.4g} tok/s at concurrency "
        f"{reference.concurrency}: {_percent(ratio)} % [{_percent(low)}, {_percent(high)}] "
        f"({lives}{', spread between lives assumed' if len(recorded) < 3 else ''})"
    )
    return Speed(ratio, low, high, text)


def _percent(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.1f}"


def _speeds(points: Sequence[Mapping[str, Any]], reference: Reference | None) -> list[float]:
    """Throughput of every repeat at the recorded point."""
    return [
        float(point["output_tok_s"])
        for point in points
        if reference is not None
        and point.get("concurrency") == reference.concurrency
        and point.get("complete") is not False
        and isinstance(point.get("output_tok_s"), int | float)
    ]
