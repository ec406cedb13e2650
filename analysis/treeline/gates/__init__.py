"""The gates: a service that is up is not yet good.

Every gate is evaluated and recorded with its value, limit and verdict, also after another has failed.
Acceptance and correctness are separate gates: each catches what the other misses. A gate with too little
to go on says ``not available``.
"""

from __future__ import annotations

from collections.abc import Mapping

from treeline.baselines import Baseline
from treeline.gates.answers import canary_gates, coding_gate
from treeline.gates.identity import describe_mismatches, identity
from treeline.gates.judging import LIMITS, Limits, LogFacts
from treeline.gates.measurement import failed_requests, overrun, points_measured, prefix_cache
from treeline.gates.outputs import agreement_gate, output_gates
from treeline.gates.speculation import acceptance_length, point_name, speculation_gates
from treeline.records import Gate, Status
from treeline.steps import Steps

__all__ = [
    "LIMITS",
    "STATUS_OF_GATE",
    "Limits",
    "LogFacts",
    "acceptance_length",
    "describe_mismatches",
    "evaluate",
    "point_name",
]

# What a failed gate makes of a trial, in order of precedence.
STATUS_OF_GATE: tuple[tuple[str, Status], ...] = (
    ("new_invocation", "mismatch"),
    ("trial_id", "mismatch"),
    ("served_arguments", "mismatch"),
    ("verify_width", "mismatch"),
    ("canaries_single", "garbled"),
    ("canaries_busiest", "garbled"),
    ("canaries_vs_baseline", "garbled"),
    ("coding_tasks", "garbled"),
    ("token_agreement", "garbled"),
    ("garbled_outputs", "garbled"),
    ("garbled_pool", "garbled"),
    ("repetition", "garbled"),
    ("speculation", "fallback"),
    ("acceptance", "accept_collapse"),
    ("acceptance_vs_anchor", "accept_collapse"),
    ("acceptance_within_run", "accept_collapse"),
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
    stored: Baseline | None = None,
    anchor_al: float | Mapping[str, float] | None = None,
    speculative: bool = True,
    limits: Limits = LIMITS,
) -> tuple[Gate, ...]:
    """All gates of one trial, in the order in which they guard it.

    Args:
        steps: what the trial's modules returned.
        log: what the journal says, where it was fetched.
        trial_id: what the running unit must carry in its environment.
        points_asked: points that the load was to measure.
        baseline: how the sweep was asked for references (``auto`` or ``skip``), for the words of the gates.
        stored: the baseline itself, where there is one; without it the answers shipped with the canaries
            serve, and what only a baseline can tell is not available.
        anchor_al: the anchor's acceptance length on the same prompts, as one figure or by point (see
            ``point_name``). To be given only where this setting should accept as much: a smaller tree may
            accept less and be sound.
        speculative: whether drafts were asked for; the baseline itself has none.
        limits: what is allowed.
    """
    canaries = steps.load.mappings("canaries")
    points = steps.load.mappings("points")
    return (
        *identity(steps, log, trial_id),
        *canary_gates(canaries, stored, baseline, limits),
        coding_gate(steps.load.mappings("coding"), stored, limits),
        agreement_gate(steps.load.mappings("samples"), stored, limits),
        *output_gates(points, stored, limits),
        *speculation_gates(points, log, limits, anchor_al, speculative),
        failed_requests(points, canaries),
        prefix_cache(points, limits),
        overrun(steps.load, limits),
        points_measured(steps.load, points, points_asked),
    )
