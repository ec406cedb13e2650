"""A plan walked through on paper: what would be run, if every trial ended as the rows prior says."""

from __future__ import annotations

from dataclasses import dataclass

from treeline.keys import Item, Known, Plan
from treeline.plan.evidence import Evidence
from treeline.plan.simulate import play
from treeline.records import Effect

NOTHING_KNOWN = Known()


@dataclass(frozen=True)
class Rehearsed:
    """One item as it would be handed out. ``assumed``: how its trial was taken to end, where that matters."""

    item: Item
    assumed: Effect | None = None


def rehearse(plan: Plan, known: Known = NOTHING_KNOWN) -> list[Rehearsed]:
    """Items in the order in which one host would run them; nothing runs.

    Those of a list do not depend on how trials end. Those of a frontier do: here a cell works where it is
    eager or its rows are within the prior. Lives of finalists depend on what is measured and are left out.
    """
    found: list[Rehearsed] = []
    if plan.baseline is not None and known.baseline is None:
        found.append(Rehearsed(plan.baseline))
    if plan.frontier is None:
        return found + [Rehearsed(item) for item in plan.items if item.cell not in known.bad]
    prior = plan.frontier.rows_prior
    search = Plan(kind="frontier", items=(), frontier=plan.frontier)

    def by_prior(item: Item) -> Effect:
        return "good" if not item.key.graphs or item.key.rows <= prior else "bad"

    _, trials, _ = play(search, by_prior, evidence=Evidence(), known=known)
    return found + [Rehearsed(item, past.effect) for item, past in trials]


def rehearsal_lines(plan: Plan, known: Known = NOTHING_KNOWN) -> list[str]:
    """The rehearsal for people; what is assumed is labelled so."""
    steps = rehearse(plan, known)
    lines = []
    if plan.frontier is not None:
        lines.append(
            f"Path if every trial ended as the rows prior of {plan.frontier.rows_prior} says "
            f"(assumed, nothing was run): {len(steps)} restarts"
        )
    width = len(str(len(steps)))
    for number, step in enumerate(steps, start=1):
        end = f"  -> assumed {step.assumed}" if step.assumed is not None else ""
        lines.append(
            f"{number:>{width}}. {step.item.key.label}  ({step.item.purpose}: {step.item.reason}){end}"
        )
    return lines
