"""Cells as observations: where they stand, whether they worked, and what they died of."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True)
class Observation:
    """One measured cell.

    Attributes:
        dead: it does not work (crash, garbled output, speculation off, ...).
        cause: class of the failure, else its status; None for a cell that works.
        crashed: the service died, so that the failure needs no judgement of outputs.
        extrapolated: the engine says that its behaviour there was never observed.
    """

    budget: int
    maxreq: int
    topk: int
    graphs: bool
    rows: int
    dead: bool
    cause: str | None = None
    crashed: bool = False
    extrapolated: bool = False

    @property
    def label(self) -> str:
        """The cell for people, such as ``16 x 64 topk 8 graphs on (1088 rows)``."""
        switch = "on" if self.graphs else "off"
        return (
            f"budget {self.budget} x maxreq {self.maxreq} topk {self.topk} graphs {switch} ({self.rows} rows)"
        )

    def value(self, feature: str) -> int:
        """The value of a feature: budget, maxreq, rows, topk, or graphs (1 on, 0 off)."""
        return int(getattr(self, feature))


def observations(cells: pd.DataFrame) -> list[Observation]:
    """Return the measured cells of a frame (``frames.cells``) that are plainly good or bad.

    Mixed, unknown, implied and open cells say nothing certain and are left out. Cells of several hardware
    classes or builds must not be put together: pass those of one.
    """
    measured = cells[cells["state"].isin(["good", "bad"]) & (cells["budget"] > 0)]
    return [
        Observation(
            budget=int(row["budget"]),
            maxreq=int(row["maxreq"]),
            topk=int(row["topk"]),
            graphs=bool(row["graphs"]),
            rows=int(row["rows"]),
            dead=row["state"] == "bad",
            cause=_cause(row) if row["state"] == "bad" else None,
            crashed=row["state"] == "bad" and row["status"] in ("crash", "timeout"),
            extrapolated=bool(row["extrapolated"]),
        )
        for row in measured.to_dict("records")
    ]


def _cause(row: dict[object, object]) -> str:
    found = row.get("class")
    return found if isinstance(found, str) and found != "ok" else str(row["status"])
