"""Canaries and coding tasks: questions whose right answer is known, or was the baseline's.

A canary counts only if its reference is right: where the baseline of this hardware class, build and model is
stored, those that it answered right; else all, by the answers shipped with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from treeline.baselines import Baseline
from treeline.gates.exact import fewest_for, worse_in_pairs
from treeline.gates.judging import Limits, judge
from treeline.records import Gate

Canary = Mapping[str, Any]

BUSIEST = "busiest"
SINGLE = "single"


def reference_text(baseline: Baseline | None, asked: str) -> str:
    """Which answers canaries are measured against."""
    if baseline is not None:
        return f"reference: the baseline of trial {baseline.trial_id}"
    none = ", none is stored" if asked == "auto" else ""
    return f"reference: the answer shipped with the canary, baseline={asked}{none}"


def canary_gates(
    canaries: Sequence[Canary], baseline: Baseline | None, asked: str, limits: Limits
) -> tuple[Gate, ...]:
    """canaries_single, canaries_busiest and canaries_vs_baseline."""
    single = [one for one in canaries if one.get("phase") != BUSIEST]
    busiest = [one for one in canaries if one.get("phase") == BUSIEST]
    reference = reference_text(baseline, asked)
    return (
        _share("canaries_single", single, SINGLE, baseline, reference, limits),
        _share("canaries_busiest", busiest, BUSIEST, baseline, reference, limits),
        _paired(busiest, baseline, limits),
    )


def _answered(canaries: Sequence[Canary]) -> list[Canary]:
    """A canary without an answer says nothing about the text."""
    return [one for one in canaries if not one.get("error")]


def _share(
    name: str,
    canaries: Sequence[Canary],
    phase: str,
    baseline: Baseline | None,
    reference: str,
    limits: Limits,
) -> Gate:
    """Share of right answers among the canaries that count."""
    answered = _answered(canaries)
    counted = [one for one in answered if baseline is None or baseline.was_right(one, phase)]
    wrong = [str(one.get("id")) for one in counted if not one.get("ok")]
    share = 1 - len(wrong) / len(counted) if counted else None
    detail = f"{len(counted) - len(wrong)} of {len(counted)} right; {reference}"
    if len(counted) < len(answered):
        detail += f"; {len(answered) - len(counted)} do not count, the baseline was not right about them"
    if wrong:
        detail += f"; wrong: {', '.join(wrong)}"
    enough = share is not None and len(counted) >= limits.canaries
    return judge(
        name,
        None if share is None else round(share, 3),
        limits.canary_share,
        share >= limits.canary_share if share is not None and enough else None,
        detail if answered else "no canary was answered",
    )


def _paired(canaries: Sequence[Canary], baseline: Baseline | None, limits: Limits) -> Gate:
    """McNemar's exact test, one-sided, on the canaries that both lives answered at their busiest point."""
    name, limit = "canaries_vs_baseline", f">= {limits.paired_chance:g}"
    if baseline is None:
        return judge(name, None, limit, None, "there is no baseline to pair the answers with")
    pairs = [
        (before, bool(one.get("ok")))
        for one in _answered(canaries)
        if (before := baseline.verdict_on(one, BUSIEST)) is not None
    ]
    could_be_lost = sum(before for before, _ in pairs)
    lost = sum(before and not now for before, now in pairs)
    won = sum(now and not before for before, now in pairs)
    chance = worse_in_pairs(lost, won)
    detail = f"exact test on {len(pairs)} pairs: {lost} right before and wrong now, {won} the other way round"
    if could_be_lost < fewest_for(limits.paired_chance):
        return judge(name, None, limit, None, f"{detail}; too few that could be lost")
    return judge(name, round(chance, 6), limit, chance >= limits.paired_chance, detail)


def coding_gate(rows: Sequence[Mapping[str, Any]], baseline: Baseline | None, limits: Limits) -> Gate:
    """A smoke test: it fails only where not one of the tasks works that should."""
    name, limit, smoke = "coding_tasks", "> 0", "a smoke test of very few tasks, no measure of quality"
    counts = {}
    for phase in (SINGLE, BUSIEST):
        ran = [
            row
            for row in rows
            if row.get("phase") == phase
            and row.get("outcome") in ("passed", "failed")
            and (baseline is None or baseline.coding.get(str(row.get("id")), True))
        ]
        if len(ran) >= limits.coding_tasks:
            counts[phase] = (sum(row["outcome"] == "passed" for row in ran), len(ran), ran)
    if not counts:
        why = next((str(row.get("detail")) for row in rows if row.get("outcome") == "not available"), "")
        return judge(name, None, limit, None, why or "no answers to coding tasks were run")
    shown = ", ".join(f"{passed} of {of} {phase}" for phase, (passed, of, _) in counts.items())
    failures = sorted(
        {
            f"{row.get('id')} ({row.get('detail')})"
            for _, _, ran in counts.values()
            for row in ran
            if row["outcome"] == "failed"
        }
    )
    detail = f"{shown}; {smoke}" + (f"; failed: {', '.join(failures)}" if failures else "")
    fewest = min(passed for passed, _, _ in counts.values())
    return judge(name, fewest, limit, fewest > 0, detail)
