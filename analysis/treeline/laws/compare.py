"""Laws against each other: which one the cells allow, and whether there are enough of them to say so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from treeline.laws.observe import Observation
from treeline.laws.pairs import Pair, refuting
from treeline.laws.threshold import LAWS, Fit, Law, fit

ENOUGH = 3
"""Cells on each side without which no law is said to hold."""

Verdict = Literal["holds", "not refuted", "refuted", "too little data"]


@dataclass(frozen=True)
class Judged:
    """One law on one set of cells.

    Attributes:
        pairs: for a law of one feature, the pairs of cells that refute it.
    """

    fit: Fit
    verdict: Verdict
    pairs: tuple[Pair, ...]

    @property
    def law(self) -> Law:
        """The law."""
        return self.fit.law

    @property
    def brackets(self) -> str:
        """Where its thresholds lie, such as ``rows (1152, 2176]``."""
        return ", ".join(f"{bracket.feature} {bracket}" for bracket in self.fit.brackets)

    @property
    def text(self) -> str:
        """The verdict in a sentence."""
        cells = len(self.fit.observations)
        name = self.law.name
        if self.verdict == "too little data":
            dead = sum(cell.dead for cell in self.fit.observations)
            where = "" if self.fit.wrong else f"; if it is one, its limit lies in {self.brackets}"
            return f"{name}: too little data ({dead} cells die, {cells - dead} live){where}"
        if self.verdict == "refuted":
            if self.pairs:
                pair = self.pairs[0]
                said = f"{pair.text(self.law.features[0])} ({pair.dies.label} and {pair.lives.label})"
            else:
                said = "no thresholds explain " + ", ".join(cell.label for cell in self.fit.wrong[:3])
            return f"{name}: refuted as the only law: {said}"
        wrong = len(self.fit.held_out_wrong)
        held = f"{wrong} of {cells} held-out cells wrong, {self.fit.held_out_open} left open"
        if self.verdict == "holds":
            return f"{name}: holds, with its limit in {self.brackets} ({held})"
        return f"{name}: not refuted, but not shown either; limit in {self.brackets} ({held})"


def judge(law: Law, observations: Sequence[Observation]) -> Judged:
    """Judge one law.

    A law with a contradiction is refuted, however few cells there are. Else it takes ENOUGH cells of each
    outcome before anything is said; it *holds* when no held-out cell is got wrong and it does better on them
    than naming the more frequent outcome.
    """
    fitted = fit(law, observations)
    dead = sum(cell.dead for cell in observations)
    fewer = min(dead, len(observations) - dead)
    pairs = tuple(refuting(law.features[0], observations)) if len(law.features) == 1 else ()
    verdict: Verdict
    if fitted.wrong:
        verdict = "refuted"
    elif fewer < ENOUGH:
        verdict = "too little data"
    elif not fitted.held_out_wrong and fitted.score < fewer:
        verdict = "holds"
    else:
        verdict = "not refuted"
    return Judged(fitted, verdict, pairs if fitted.wrong else ())


def judge_all(observations: Sequence[Observation], laws: Sequence[Law] = LAWS) -> list[Judged]:
    """Judge every law, the best first: fewest cells wrong, then fewest held-out ones, then the simpler."""
    if not observations:
        return []
    found = [judge(law, observations) for law in laws]
    return sorted(found, key=lambda one: (len(one.fit.wrong), one.fit.score, len(one.law.features)))


def conclusion(judged: Sequence[Judged]) -> str:
    """Return what the laws say together, in one or two sentences."""
    if not judged:
        return "No cell was measured, so nothing can be said about any law."
    holding = [one for one in judged if one.verdict == "holds"]
    if holding:
        simplest = min(len(one.law.features) for one in holding)
        equal = [one for one in holding if len(one.law.features) == simplest]
        best = equal[0]
        said = f"The {best.law.name} holds, with its limit in {best.brackets}"
        others = [one.law.name for one in equal[1:] if one.fit.score <= best.fit.score + 1]
        return said + (f"; these cells cannot tell it from the {' or the '.join(others)}." if others else ".")
    if all(one.verdict in ("too little data", "refuted") for one in judged):
        little = [one for one in judged if one.verdict == "too little data"]
        if little:
            cells = judged[0].fit.observations
            dead = sum(cell.dead for cell in cells)
            return (
                f"Too little data to name a law: {dead} cells die and {len(cells) - dead} live; "
                f"at least {ENOUGH} of each are needed."
            )
        return "None of the simple laws explains these cells: more than one mechanism is at work."
    standing = [one for one in judged if one.verdict == "not refuted"]
    names = ", ".join(one.law.name for one in standing)
    return f"No law is shown. Not refuted: {names}."
