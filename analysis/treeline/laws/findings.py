"""The open questions of the field notes, answered from data, as far as data answer them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from treeline.frames import summaries
from treeline.frames.results import Results
from treeline.laws.ahead import Proposal, proposals
from treeline.laws.budgets import bought, deploy
from treeline.laws.causes import ClassLaw, by_class
from treeline.laws.compare import Judged, conclusion, judge_all
from treeline.laws.observe import Observation, observations


@dataclass(frozen=True)
class Findings:
    """What is known about one hardware class and engine build.

    Attributes:
        cells: the measured cells with CUDA graphs on; laws are about these. Eager ones never share a
            frontier with them, so they count only in ``classes``, where they show what graphs do.
        laws: every law on all failures together, the best first.
        classes: every failure class for itself.
        bought: what each larger budget bought.
        deploy: the best configuration by client key.
        ahead: what to measure next.
    """

    title: str
    cells: tuple[Observation, ...]
    laws: tuple[Judged, ...]
    classes: tuple[ClassLaw, ...]
    bought: pd.DataFrame
    deploy: pd.DataFrame
    ahead: tuple[Proposal, ...]
    simulated: bool

    @property
    def answer(self) -> str:
        """What the failures depend on, in a few sentences."""
        said = [conclusion(self.laws)]
        product = next((one for one in self.laws if one.law.features == ("rows",)), None)
        if product is not None and product.verdict == "refuted":
            said.append(product.text[0].upper() + product.text[1:] + ".")
        said += [
            f"{one.text}."
            for one in self.classes
            if one.product.verdict != "refuted" and len(self.classes) > 1
        ]
        return " ".join(said)

    @property
    def laws_table(self) -> pd.DataFrame:
        """The laws as a table."""
        return pd.DataFrame(
            [
                {
                    "law": one.law.name,
                    "dead where": one.law.text,
                    "verdict": one.verdict,
                    "limit in": "" if one.verdict == "refuted" else one.brackets,
                    "cells wrong": len(one.fit.wrong),
                    "held out, wrong": len(one.fit.held_out_wrong),
                    "held out, open": one.fit.held_out_open,
                    "refuted by": one.pairs[0].text(one.law.features[0]) if one.pairs else "",
                }
                for one in self.laws
            ]
        )

    @property
    def classes_table(self) -> pd.DataFrame:
        """The failure classes as a table."""
        return pd.DataFrame(
            [
                {
                    "class": one.cause,
                    "cells": one.cells,
                    "product of rows": one.product.verdict,
                    "limit in": str(one.product.fit.brackets[0]) if one.product.verdict != "refuted" else "",
                    "refuted by": one.product.pairs[0].text("rows") if one.product.pairs else "",
                    "depends on": one.depends_on,
                }
                for one in self.classes
            ],
            columns=["class", "cells", "product of rows", "limit in", "refuted by", "depends on"],
        )


def findings(results: Results) -> list[Findings]:
    """Return the findings for each hardware class and engine build; none where no cell is known."""
    lives = summaries.lives(summaries.points(results.measurements, results.trials))
    return [_of(title, cells, lives) for title, cells in _by_build(results.cells)]


def _by_build(cells: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    for (hardware, build), group in cells.groupby(
        ["hardware_class", "engine_build"], dropna=False, sort=True
    ):
        yield f"{hardware}, {build}" if build else str(hardware), group


def _of(title: str, cells: pd.DataFrame, lives: pd.DataFrame) -> Findings:
    mine = lives[
        (lives["hardware_class"] == cells["hardware_class"].iloc[0])
        & (lives["engine_build"] == (cells["engine_build"].fillna("").iloc[0]))
    ]
    every = observations(cells)
    captured = [cell for cell in every if cell.graphs] or every
    laws, classes = judge_all(captured), by_class(every)
    best = deploy(mine, cells)
    return Findings(
        title=title,
        cells=tuple(captured),
        laws=tuple(laws),
        classes=tuple(classes),
        bought=bought(mine),
        deploy=best,
        ahead=tuple(proposals(captured, laws, by_class(captured), best, cells)),
        simulated=bool(cells["simulated"].any()),
    )
