"""What to measure next: the cells that would settle most of what is open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import pandas as pd

from treeline.laws.causes import ClassLaw
from treeline.laws.compare import Judged
from treeline.laws.observe import Observation

STEP = 8
"""Request limits that are proposed are multiples of this."""


@dataclass(frozen=True)
class Proposal:
    """One thing to measure: what to run, and what it would settle. ``options`` are those of the playbook."""

    what: str
    why: str
    options: str = ""

    @property
    def text(self) -> str:
        """In one line."""
        return f"{self.what}: {self.why}" + (f" (`-e {self.options}`)" if self.options else "")


def proposals(
    observations: Sequence[Observation],
    judged: Sequence[Judged],
    classes: Sequence[ClassLaw],
    deploy: pd.DataFrame,
    cells: pd.DataFrame,
) -> list[Proposal]:
    """Return what to measure next, the most telling first."""
    found = [*_halving(classes), *_telling_apart(observations, judged), *_topk(observations)]
    lonely = deploy[deploy["n"] < 3]
    for row in lonely.drop_duplicates("label").head(2).to_dict("records"):
        found.append(
            Proposal(
                f"{row['label']}, {3 - int(row['n'])} more lives",
                f"it is the best observed at concurrency {int(row['concurrency'])}, but rests on "
                f"{int(row['n'])} service {'life' if row['n'] == 1 else 'lives'}",
            )
        )
    for row in cells[cells["state"] == "mixed"].head(2).to_dict("records"):
        found.append(Proposal(str(row["label"]), "it was seen both good and bad; more lives give its rate"))
    seen: set[str] = set()
    return [one for one in found if not (one.what in seen or seen.add(one.what))]  # type: ignore[func-returns-value]


def _halving(classes: Sequence[ClassLaw]) -> list[Proposal]:
    """Where a class may follow the product, the cell in the middle of its bracket."""
    found = []
    for one in classes:
        bracket = one.product.fit.brackets[0]
        if (
            one.product.verdict == "refuted"
            or not bracket.bounded
            or bracket.high / max(bracket.low, 1) < 1.1
        ):
            continue
        alive = [cell for cell in one.product.fit.observations if not cell.dead]
        nearest = max(alive, key=lambda cell: cell.rows)
        limit = max(STEP, round(sqrt(bracket.low * bracket.high) / (nearest.budget + 1) / STEP) * STEP)
        rows = limit * (nearest.budget + 1)
        if bracket.low < rows < bracket.high:
            found.append(
                Proposal(
                    f"budget {nearest.budget} topk {nearest.topk} maxreq {limit}",
                    f"{rows} rows lie in the middle of the bracket {bracket} of {one.cause}",
                    f"budget={nearest.budget} -e topk={nearest.topk} -e maxreq={limit}"
                    + ("" if nearest.graphs else " -e graphs=off"),
                )
            )
    return found


def _telling_apart(observations: Sequence[Observation], judged: Sequence[Judged]) -> list[Proposal]:
    """Where the laws that are not refuted disagree, among the budgets and limits that were measured."""
    standing = [one for one in judged if one.verdict != "refuted"]
    if len(standing) < 2 or not observations:
        return []
    known = {(cell.budget, cell.maxreq, cell.topk, cell.graphs) for cell in observations}
    budgets = sorted({cell.budget for cell in observations})
    limits = sorted({cell.maxreq for cell in observations})
    settings = sorted({(cell.topk, cell.graphs) for cell in observations})
    best: tuple[float, Proposal] | None = None
    for topk, graphs in settings:
        for budget in budgets:
            for limit in limits:
                if (budget, limit, topk, graphs) in known:
                    continue
                cell = Observation(budget, limit, topk, graphs, limit * (budget + 1), dead=False)
                said = [told for one in standing if (told := _says(one, cell)) is not None]
                split = min(said.count(True), said.count(False))
                if split and (best is None or split > best[0]):
                    dies = ", ".join(one.law.name for one in standing if _says(one, cell) is True)
                    lives = ", ".join(one.law.name for one in standing if _says(one, cell) is False)
                    what = f"budget {budget} topk {topk} maxreq {limit} graphs {'on' if graphs else 'off'}"
                    options = f"budget={budget} -e topk={topk} -e maxreq={limit}" + (
                        "" if graphs else " -e graphs=off"
                    )
                    best = (
                        split,
                        Proposal(what, f"it dies by the {dies}, and lives by the {lives}", options),
                    )
    return [best[1]] if best else []


def _says(judged: Judged, cell: Observation) -> bool | None:
    told = [
        True if cell.value(bracket.feature) >= bracket.high
        else False if cell.value(bracket.feature) <= bracket.low
        else None
        for bracket in judged.fit.brackets
    ]  # fmt: skip
    if True in told:
        return True
    return None if None in told else False


def _topk(observations: Sequence[Observation]) -> list[Proposal]:
    """A dead cell with another topk than every living one: topk may be what matters."""
    alive = {cell.topk for cell in observations if not cell.dead}
    cells = [cell for cell in observations if cell.dead and cell.topk not in alive and alive]
    if not cells:
        return []
    cell = min(cells, key=lambda one: one.rows)
    other = min(alive)
    return [
        Proposal(
            f"budget {cell.budget} topk {other} maxreq {cell.maxreq} graphs {'on' if cell.graphs else 'off'}",
            f"every cell with topk {cell.topk} dies and none with topk {other} has this budget; it tells "
            "topk from budget",
            f"budget={cell.budget} -e topk={other} -e maxreq={cell.maxreq}"
            + ("" if cell.graphs else " -e graphs=off"),
        )
    ]
