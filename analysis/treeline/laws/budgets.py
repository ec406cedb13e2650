"""What each larger budget bought, and what is best to deploy: service lives against service lives."""

from __future__ import annotations

import itertools
from collections.abc import Hashable

import pandas as pd

from treeline.frames.summaries import CURVE
from treeline.stats import Ranking, compare, rank

BOUGHT = [*CURVE, "smaller", "larger", "al_change", "tok_s_change", "acceptance", "throughput"]


def bought(lives: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each step to the next larger budget along each line: the change of AL and of tok/s.

    ``al_change`` and ``tok_s_change`` are shares (0.1: ten percent more); ``acceptance`` and ``throughput``
    say in words whether the lives show a difference. Of each budget the request limit with the highest mean
    tok/s counts.
    """
    rows = []
    good = lives[(lives["status"] == "ok") & (lives["budget"] > 0)]
    for names, group in good.groupby(CURVE, dropna=False, sort=True):
        cells = {
            int(str(budget)): _best_cell(of_budget)
            for budget, of_budget in group.groupby("budget", sort=True)
        }
        budgets = [budget for budget, cell in cells.items() if not cell.empty]
        for smaller, larger in itertools.pairwise(budgets):
            row = dict(zip(CURVE, names, strict=True)) | {"smaller": smaller, "larger": larger}
            for column, share, words in (
                ("al", "al_change", "acceptance"),
                ("tok_s", "tok_s_change", "throughput"),
            ):
                first, second = _values(cells[smaller], column), _values(cells[larger], column)
                found = compare(first, second) if first and second else None
                row[share] = float("nan") if found is None else found.ratio - 1
                row[words] = "not measured" if found is None else _words(found.text, smaller, larger)
            rows.append(row)
    return pd.DataFrame(rows, columns=BOUGHT)


def _best_cell(lives: pd.DataFrame) -> pd.DataFrame:
    means = lives.groupby("maxreq")["tok_s"].mean()
    if means.notna().any():
        return lives[lives["maxreq"] == means.idxmax()]
    return lives[lives["maxreq"] == lives["maxreq"].min()]


def _values(lives: pd.DataFrame, column: str) -> list[float]:
    values = lives[column].dropna()
    return [float(value) for value in values[values > 0]]


def _words(text: str, smaller: int, larger: int) -> str:
    return text.replace("first is", f"budget {smaller} is").replace("second is", f"budget {larger} is")


def deploy(lives: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    """Return the best configuration for each hardware class, build and client key, with what speaks for it.

    Only cells that always worked are ranked. ``tok_s`` is the mean over ``n`` lives, ``verdict`` the ranking
    in words: it names the configurations that the lives cannot tell from the best.
    """
    identity = ["hardware_class", "engine_build", "concurrency", "context"]
    columns = [*identity, "label", "tok_s", "al", "n", "verdict"]
    good = lives[(lives["status"] == "ok") & (lives["tok_s"] > 0) & (lives["budget"] > 0)]
    spoiled = cells[~cells["state"].isin(["good"])][["hardware_class", "engine_build", "label"]]
    against = set(spoiled.fillna("").itertuples(index=False, name=None))
    rows = []
    for names, group in good.groupby(identity, dropna=False, sort=True):
        usable = group[[(names[0], names[1], label) not in against for label in group["label"]]]
        if usable.empty:
            continue
        ranking = _ranked(usable)
        best = usable[usable["label"] == ranking.best]
        rows.append(
            dict(zip(identity, names, strict=True))
            | {
                "label": str(ranking.best),
                "tok_s": float(best["tok_s"].mean()),
                "al": float(best["al"].mean()),
                "n": len(best),
                "verdict": ranking.text,
            }
        )
    return pd.DataFrame(rows, columns=columns)


def _ranked(lives: pd.DataFrame) -> Ranking:
    values: dict[Hashable, list[float]] = {}
    rounds: dict[Hashable, dict[Hashable, float]] = {}
    for label, group in lives.groupby("label"):
        values[str(label)] = [float(value) for value in group["tok_s"]]
        # Finalists take turns round by round, each round on one host: neighbours in time.
        turns = group[group["purpose"] == "confirm"]
        places = turns[["sweep_id", "host", "ordinal"]].itertuples(index=False, name=None)
        rounds[str(label)] = {
            place: float(value) for place, value in zip(places, turns["tok_s"], strict=True)
        }
    return rank(values, rounds=rounds)
