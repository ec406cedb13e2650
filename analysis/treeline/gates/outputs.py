"""Whether the measured outputs are text, and whether they are what the model says without drafts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from treeline.baselines import Baseline, Sample
from treeline.gates.exact import at_least
from treeline.gates.judging import Limits, judge, label, mapping, number
from treeline.records import Gate


def output_gates(
    points: Sequence[dict[str, Any]], baseline: Baseline | None, limits: Limits
) -> tuple[Gate, ...]:
    """garbled_outputs, garbled_pool and repetition. The worst point counts: corruption may come with load."""
    return (_garbled(points, limits), _pool(points), _repetition(points, baseline, limits))


def _garbled(points: Sequence[dict[str, Any]], limits: Limits) -> Gate:
    """Outputs that look garbled by themselves."""
    shares = []
    for point in points:
        seen = mapping(point, "garble")
        flagged, total = number(seen, "flagged"), number(seen, "of")
        if flagged is not None and total is not None and total >= limits.outputs:
            shares.append((flagged / total, label(point), int(flagged), int(total)))
    if not shares:
        return judge("garbled_outputs", None, limits.garbled_share, None, "too few outputs were examined")
    share, where, flagged, total = max(shares)
    return judge(
        "garbled_outputs",
        round(share, 4),
        limits.garbled_share,
        share <= limits.garbled_share,
        f"{flagged} of {total} outputs look garbled at {where}",
    )


def _pool(points: Sequence[dict[str, Any]]) -> Gate:
    """Outputs of a point taken together: how many signals are beyond their limits at the worst point."""
    found = []
    for point in points:
        pool = mapping(mapping(point, "garble"), "pool")
        if pool.get("verdict") in ("clean", "flagged"):
            reasons = [str(reason) for reason in pool.get("reasons") or []]
            scores = mapping(pool, "scores")
            said = ", ".join(f"{reason} {scores.get(reason)}" for reason in reasons)
            found.append((len(reasons), label(point), said))
    if not found:
        return judge("garbled_pool", None, 0, None, "too few words were written at every point")
    count, where, said = max(found)
    detail = f"at {where}: {said}" if count else f"outputs of {len(found)} points, each taken together"
    return judge("garbled_pool", count, 0, count == 0, detail)


def _repetition(points: Sequence[dict[str, Any]], baseline: Baseline | None, limits: Limits) -> Gate:
    """Outputs that end in a loop. Sound models loop too: the baseline tells how often."""
    usual = baseline.looping_share if baseline is not None else None
    limit = limits.looping_share
    if usual is not None:
        limit = round(max(limits.looping_least, usual + limits.looping_excess), 4)
    shares = looping_shares(points, limits.outputs)
    if not shares or limit >= 1.0:
        detail = "the baseline loops as often" if shares else "too few outputs are long enough to tell"
        return judge("repetition", max(shares)[0] if shares else None, limit, None, detail)
    share, where = max(shares)
    detail = f"outputs that end in a loop, at {where}"
    if usual is not None:
        detail += f"; the baseline's share is {usual:g}"
    return judge("repetition", round(share, 4), limit, share <= limit, detail)


def looping_shares(points: Iterable[Mapping[str, Any]], least: int) -> list[tuple[float, str]]:
    """The share of looping outputs at each point that has enough long ones, and which point it is."""
    found = []
    for point in points:
        seen = mapping(mapping(point, "garble"), "looping")
        count, of = number(seen, "count"), number(seen, "of")
        if count is not None and of and of >= least:
            found.append((round(count / of, 4), label(point)))
    return found


@dataclass(frozen=True)
class Agreement:
    """Places compared up to and including the first difference of each output.

    ``sure`` places have a large margin; ``compared`` are all places. Behind a difference the contexts are no
    longer the same, so that nothing there can be compared.
    """

    outputs: int = 0
    compared: int = 0
    differing: int = 0
    sure: int = 0
    sure_differing: int = 0

    @property
    def share(self) -> float | None:
        """Places that agree, of all that were compared."""
        return 1 - self.differing / self.compared if self.compared else None


def compare(
    before: Iterable[Sample], now: Iterable[Mapping[str, Any]], margin: float, exact: bool
) -> Agreement:
    """Compare outputs for the same prompts. ``exact``: arithmetic without rounding, every place is sure."""
    known = {sample.id: sample for sample in before}
    outputs = compared = differing = sure = sure_differing = 0
    for row in now:
        reference = known.get(str(row.get("id")))
        tokens = row.get("tokens")
        if (
            reference is None
            or reference.tokens is None
            or not isinstance(tokens, list | tuple)
            or row.get("prompt_sha256") != reference.prompt_sha256
        ):
            continue
        outputs += 1
        for at, (one, other) in enumerate(zip(reference.tokens, tokens, strict=False)):
            is_sure = exact or _margin(reference, at) >= margin
            compared, sure = compared + 1, sure + is_sure
            if one != other:
                differing, sure_differing = differing + 1, sure_differing + is_sure
                break
    return Agreement(outputs, compared, differing, sure, sure_differing)


def _margin(sample: Sample, at: int) -> float:
    value = sample.margins[at] if sample.margins is not None and at < len(sample.margins) else None
    return -1.0 if value is None else value


def agreement_gate(samples: Sequence[Mapping[str, Any]], baseline: Baseline | None, limits: Limits) -> Gate:
    """Losslessness: the baseline's tokens wherever rounding cannot have changed them."""
    name, limit = "token_agreement", f">= {1 - limits.disagreement:g}"
    if baseline is None:
        return judge(name, None, limit, None, "there is no baseline to compare the outputs with")
    found = compare(baseline.samples, samples, limits.margin, baseline.exact)
    if not found.compared:
        return judge(name, None, limit, None, "no output for the same prompt gives its tokens in both lives")
    if not found.sure:
        detail = (
            f"{found.differing} of {found.outputs} outputs differ from the baseline's somewhere; whether "
            "rounding did it cannot be told: it gives no margins and did not compute in float32"
        )
        return judge(name, round(found.share or 0.0, 5), limit, None, detail)
    share = 1 - found.sure_differing / found.sure
    which = "all places" if baseline.exact else f"places with a margin of at least {limits.margin:g} nats"
    detail = (
        f"{found.sure_differing} of {found.sure} {which} differ, "
        f"in {found.outputs} outputs up to their first difference"
    )
    if found.sure < limits.compared and not found.sure_differing:
        return judge(name, round(share, 5), limit, None, f"{detail}; too few to tell")
    # One odd place does not condemn a setting, more than the allowed share of them does.
    chance = at_least(found.sure_differing, found.sure, limits.disagreement)
    return judge(name, round(share, 5), limit, chance >= limits.paired_chance, detail)
