"""The service answers, and it is this trial's: a new process with this trial's id and arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treeline.gates.judging import LogFacts, judge
from treeline.records import Gate
from treeline.steps import Steps

WIDTH_MISMATCH = "captured verify width"


def identity(steps: Steps, log: LogFacts | None, trial_id: str) -> list[Gate]:
    """ready, new_invocation, trial_id, served_arguments and verify_width."""
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
        judge(
            "ready", outcome, "ready", answered if outcome else None, ready.message if not answered else ""
        ),
        judge(
            "new_invocation",
            invocation,
            f"other than {previous or 'none'}",
            None if invocation is None else invocation != previous,
        ),
        judge("trial_id", shown_id, trial_id, shown_id == trial_id if answered and proof else None),
        judge(
            "served_arguments",
            len(others) if answered else None,
            0,
            not others if answered else None,
            describe_mismatches(others),
        ),
        judge(
            "verify_width", width, expected, width == expected if answered and width and expected else None
        ),
    ]


def describe_mismatches(mismatches: Sequence[dict[str, Any]]) -> str:
    """Readable differences between what was asked and what is served."""
    return "; ".join(
        f"{entry.get('name')}: asked for {entry.get('expected')!r}, served {entry.get('served')!r}"
        for entry in mismatches
    )
