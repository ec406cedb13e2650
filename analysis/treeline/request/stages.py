"""From the variables of a request to the search for a frontier, the lives after it, and the baseline."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from treeline.keys import (
    OBJECTIVE_PATTERN,
    STAGES,
    ClientKey,
    Column,
    Finals,
    Frontier,
    Item,
    Load,
    PlanKind,
    RestartKey,
    Slice,
    Stage,
)
from treeline.request import values
from treeline.request.cells import Cells
from treeline.request.fill import Axes, cross
from treeline.request.problems import FaultError
from treeline.request.reader import Reader

# What a frontier is searched over where no lists are given.
FRONTIER_BUDGETS = (8, 12, 16, 20, 24, 32, 48, 64)
FRONTIER_MAXREQS = (8, 16, 32, 48, 64, 96, 128, 192, 256)
USUAL_SOAK_S = 600.0
_OBJECTIVE = re.compile(OBJECTIVE_PATTERN)


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """The stages and what was asked of them; None: not given."""

    stages: tuple[Stage, ...] | None = None
    lives: int | None = None
    soak_s: float | None = None
    objective: str | None = None


def read(reader: Reader, kind: PlanKind | None) -> Wishes:
    """The wishes that were given and can be read; the problems of the others go to the reader."""
    wishes = Wishes(
        stages=reader.read("stages", _stages),
        lives=reader.read("lives", lambda value: values.whole(value, 0)),
        soak_s=reader.read("soak", values.seconds),
        objective=reader.read("objective", _objective),
    )
    if wishes.stages is not None and kind in ("grid", "points"):
        reader.complain("stages", f"is given, but plan={kind} has none", "stages with plan=frontier")
    return wishes


def finals(kind: PlanKind, wishes: Wishes) -> Finals | None:
    """The lives after the cells: usual for a frontier, only where they are asked for otherwise."""
    confirm = "confirm" in (wishes.stages or STAGES) if kind == "frontier" else bool(wishes.lives)
    soak_s = USUAL_SOAK_S if wishes.soak_s is None and confirm and kind == "frontier" else wishes.soak_s
    asked = {"objective": wishes.objective, "soak_s": soak_s or None}
    given = {name: value for name, value in asked.items() if value is not None}
    if not confirm and "soak_s" not in given and not (kind == "frontier" and given):
        return None
    lives = (3 if wishes.lives is None else wishes.lives) if confirm else 0
    return Finals(lives=lives, **cast(dict[str, Any], given))


def fill_frontier(
    cells: Cells, given: Mapping[str, Any], load: Load, rows_prior: int, wishes: Wishes
) -> Frontier | None:
    """The search over the given axes; None where no cell is left. Cells left out are told by ``cells``."""
    usual: dict[str, Any] = {"maxreq": FRONTIER_MAXREQS}
    if cells.dialect.changes("budget"):
        usual["budget"] = FRONTIER_BUDGETS
    cross(cells, Axes.of(usual | dict(given), cells.dialect), load, rows_prior, "frontier")
    slices = _slices(cells.loads)
    if not slices:
        return None
    stages = wishes.stages or STAGES
    return Frontier(slices=slices, load=load, rows_prior=rows_prior, throughput="throughput" in stages)


def _slices(keys: Iterable[RestartKey]) -> tuple[Slice, ...]:
    """Cells grouped by everything but budget and maxreq; slices with graphs first, then by topk."""
    grouped: dict[Slice, dict[int, list[int]]] = {}
    for key in keys:
        part = Slice(
            topk=key.topk,
            block_size=key.block_size,
            graphs=key.graphs,
            graph_max_bs=key.graph_max_bs,
            attention_backend=key.attention_backend,
            columns=(),
        )
        grouped.setdefault(part, {}).setdefault(key.budget, []).append(key.maxreq)
    ordered = sorted(
        grouped,
        key=lambda part: (
            not part.graphs,
            part.attention_backend or "",
            part.graph_max_bs or 0,
            part.block_size,
            part.topk,
        ),
    )
    return tuple(
        msgspec.structs.replace(
            part,
            columns=tuple(
                Column(budget=budget, maxreqs=tuple(sorted(limits)))
                for budget, limits in sorted(grouped[part].items())
            ),
        )
        for part in ordered
    )


def baseline_of(loads: Mapping[RestartKey, Iterable[ClientKey]]) -> Item:
    """The service without speculation, able to take every load of these cells; there is at least one.

    Where any cell has graphs, the baseline has: an eager one would flatter it.
    """
    cells = list(loads)
    graphs = any(key.graphs for key in cells)
    first = next(key for key in cells if key.graphs == graphs)
    key = RestartKey(
        budget=0,
        topk=1,
        maxreq=max(key.maxreq for key in cells),
        block_size=first.block_size,
        graphs=graphs,
        attention_backend=first.attention_backend,
    )
    return Item.of(
        key,
        {client for clients in loads.values() for client in clients},
        purpose="baseline",
        reason="the service without speculation: the reference of gates and speed-ups",
    )


def _stages(value: Any) -> tuple[Stage, ...]:
    """The stages in their order; the search itself cannot be left out."""
    words = values.axis(value, lambda entry: values.word(entry, STAGES))
    if "frontier" not in words:
        raise FaultError(value, "leaves out frontier, which the others go on from")
    return tuple(stage for stage in STAGES if stage in words)


def _objective(value: Any) -> str:
    name = values.text(value).lower()
    if not _OBJECTIVE.match(name):
        raise FaultError(value, "is not an objective")
    return name
