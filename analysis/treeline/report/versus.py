"""Two sweeps against each other, before and after a change: what moved, and what works or dies now."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from treeline.frames import summaries
from treeline.frames.results import Results
from treeline.report.table import markdown_table
from treeline.stats import compare

POINT = ["label", "cell", "concurrency", "context"]
CHANGES = ("works now", "dies now", "died of something else", "as before", "decided in one only")


@dataclass(frozen=True)
class Versus:
    """What two sets of results say about each other.

    Attributes:
        points: one row for each client key of each cell that ended ok in both: ``al_change`` and
            ``tok_s_change`` (shares), the lives of each, and the verdicts in words.
        cells: one row for each cell of both: its state before and after, and the change in words.
        provenance: what differs in what they were measured with.
    """

    points: pd.DataFrame
    cells: pd.DataFrame
    provenance: tuple[str, ...]
    simulated: bool

    @property
    def sentence(self) -> str:
        """What changed, in a few words."""
        counts = self.cells["change"].value_counts()
        told = [f"{counts[name]} {name}" for name in CHANGES if name in counts]
        shown = int((self.points["winner"] != "").sum())
        said = (
            f"{len(self.cells)} cells in both: {', '.join(told)}."
            if len(self.cells)
            else "No cell is in both."
        )
        said += f" {len(self.points)} client keys in both; tok/s differs in {shown} of them."
        return said + (" Timing is simulated." if self.simulated else "")


def versus(before: Results, after: Results) -> Versus:
    """Compare two sets of results, cell by cell and client key by client key.

    The unit is the service life: one life each shows no difference. Intervals are corrected for the number
    of client keys compared (Bonferroni).
    """
    first, second = _lives(before), _lives(after)
    groups = dict(iter(second.groupby(POINT, dropna=False)))
    common = [
        (names, rows, groups[names])
        for names, rows in first.groupby(POINT, dropna=False, sort=False)
        if names in groups
    ]
    rows = [
        dict(zip(POINT, names, strict=True)) | _point(one, other, len(common)) for names, one, other in common
    ]
    columns = [
        *POINT, "lives_before", "lives_after", "al_change", "al_verdict", "tok_s_before", "tok_s_after",
        "tok_s_change", "tok_s_verdict", "winner",
    ]  # fmt: skip
    return Versus(
        points=pd.DataFrame(rows, columns=columns),
        cells=_cells(before.cells, after.cells),
        provenance=tuple(_differences(before, after)),
        simulated=before.simulated or after.simulated,
    )


def _lives(results: Results) -> pd.DataFrame:
    lives = summaries.lives(summaries.points(results.measurements, results.trials))
    cells = results.measurements[["trial_id", "cell"]].drop_duplicates()
    # NaN is no key that two groups could share, and a missing context is the same in both.
    return (
        lives[lives["status"] == "ok"]
        .merge(cells, on="trial_id", how="left")
        .assign(context=lambda table: table["context"].astype("Int64").fillna(0))
    )


def _point(one: pd.DataFrame, other: pd.DataFrame, comparisons: int) -> dict[str, object]:
    row: dict[str, object] = {"lives_before": len(one), "lives_after": len(other), "winner": ""}
    for column in ("al", "tok_s"):
        values = [[float(v) for v in side[column].dropna() if v > 0] for side in (one, other)]
        if not values[0] or not values[1]:
            row |= {f"{column}_change": float("nan"), f"{column}_verdict": "not measured in both"}
            continue
        found = compare(values[0], values[1], comparisons=comparisons)
        words = found.text.replace("first is", "before is").replace("second is", "after is")
        row |= {f"{column}_change": found.ratio - 1, f"{column}_verdict": words}
        if column == "tok_s":
            row["winner"] = {"first": "before", "second": "after", None: ""}[found.winner]
    row |= {"tok_s_before": one["tok_s"].mean(), "tok_s_after": other["tok_s"].mean()}
    return row


def _cells(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    kept = ["cell", "label", "state", "class"]
    both = before[kept].drop_duplicates("cell", keep="last").merge(
        after[kept].drop_duplicates("cell", keep="last"), on="cell", suffixes=("_before", "_after")
    )  # fmt: skip
    return both.rename(columns={"label_before": "label"}).assign(
        change=[_change(row) for row in both.to_dict("records")]
    )[["cell", "label", "state_before", "class_before", "state_after", "class_after", "change"]]


def _change(row: dict[object, object]) -> str:
    sides = [_side(str(row[f"state_{when}"])) for when in ("before", "after")]
    if None in sides:
        return "as before" if sides[0] == sides[1] else "decided in one only"
    if sides[0] != sides[1]:
        return "works now" if sides[1] else "dies now"
    if sides[0] is False and row["class_before"] != row["class_after"]:
        return "died of something else"
    return "as before"


def _side(state: str) -> bool | None:
    if state in ("good", "implied_good"):
        return True
    return False if state in ("bad", "mixed", "implied_bad", "known_bad") else None


def _differences(before: Results, after: Results) -> list[str]:
    told = []
    for name in ("hardware_class", "engine", "engine_build", "model", "driver"):
        sides = [
            sorted(
                {
                    getattr(about, name) or "unknown"
                    for sweep in one.sweeps
                    for about in sweep.provenance.values()
                }
            )
            for one in (before, after)
        ]
        if sides[0] != sides[1]:
            told.append(
                f"{name.replace('_', ' ')}: {', '.join(sides[0])} before, {', '.join(sides[1])} after"
            )
    return told


def markdown(found: Versus) -> str:
    """Return the comparison as Markdown, for a pull request."""
    changed = found.cells[found.cells["change"] != "as before"]
    parts = ["# Before and after", found.sentence]
    if found.provenance:
        parts.append("\n".join(f"- {line}" for line in found.provenance))
    parts.append("## Cells that changed")
    parts.append(
        _table(changed, {"label": "configuration", "state_before": "before", "class_before": "class before",
                         "state_after": "after", "class_after": "class after", "change": "change"})
        if len(changed) else "none"
    )  # fmt: skip
    parts.append("## Throughput and acceptance")
    parts.append(
        _table(found.points, {"label": "configuration", "concurrency": "concurrency",
                              "tok_s_before": "tok/s before", "tok_s_after": "tok/s after",
                              "tok_s_verdict": "tok/s", "al_verdict": "AL"})
        if len(found.points) else "nothing was measured in both"
    )  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _table(frame: pd.DataFrame, names: dict[str, str]) -> str:
    rows = [
        [
            "" if pd.isna(value) else f"{value:.1f}" if isinstance(value, float) else str(value)
            for value in row
        ]
        for row in frame[list(names)].itertuples(index=False, name=None)
    ]
    return markdown_table(list(names.values()), rows)
