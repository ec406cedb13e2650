"""From axes or a points file to the cells of a plan, in the order in which they are run."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from treeline.dialects import Dialect
from treeline.keys import KEY_FIELDS, USUAL_BLOCK_SIZE, Item, Load, RestartKey
from treeline.request.cells import Cells
from treeline.request.points import Point, PointsFile
from treeline.request.public import ALLOWED_IN_POINT, CLIENT_VARIABLES
from treeline.request.reader import READ_ONE, Reader, counts

DEFAULT_TOPK = 8
LARGEST_GRID = 10_000


class Axes(msgspec.Struct, frozen=True, kw_only=True):
    """The values to cross. A maxreq of None follows the rows prior; a budget of None fills the chain."""

    budget: tuple[int, ...] | None = None
    topk: tuple[int, ...] = (DEFAULT_TOPK,)
    maxreq: tuple[int, ...] | None = None
    block_size: tuple[int, ...] = (USUAL_BLOCK_SIZE,)
    graphs: tuple[bool, ...] = (True,)
    graph_max_bs: tuple[int | None, ...] = (None,)
    attention_backend: tuple[str | None, ...] = (None,)

    @classmethod
    def of(cls, given: Mapping[str, Any], dialect: Dialect) -> Axes:
        """The given axes and the defaults; a chain has one candidate for each position."""
        defaults = {} if dialect.capabilities.tree else {"topk": (1,)}
        return cls(**(defaults | dict(given)))


def grid_size(axes: Mapping[str, Sequence[Any]]) -> int:
    """Number of configurations that given axes make, the excluded ones counted."""
    size = 1
    for axis in axes.values():
        size *= len(axis)
    return size


def fill_grid(cells: Cells, axes: Axes, load: Load, rows_prior: int) -> tuple[Item, ...]:
    """Every cell of the grid, the safest by the rows prior first, so that a result exists early.

    Every cell costs one restart whatever the order; what saves restarts is to leave out what the engine
    cannot tell apart. Ties go to the eager service (no capture to die in), then to the smaller tree.
    """
    cross(cells, axes, load, rows_prior, "grid")
    return cells.items(sorted(cells.loads, key=_risk), rows_prior)


def cross(cells: Cells, axes: Axes, load: Load, rows_prior: int, reason: str) -> None:
    """Add every combination of the axes to the cells."""
    kept = (axes.topk, axes.block_size, axes.graphs, axes.graph_max_bs, axes.attention_backend)
    for topk, block_size, graphs, cap, backend in itertools.product(*kept):
        for budget in axes.budget or (block_size - 1,):
            for maxreq in axes.maxreq or (default_maxreq(budget, block_size, cells.dialect, rows_prior),):
                key = RestartKey(
                    budget=budget,
                    topk=topk,
                    maxreq=maxreq,
                    block_size=block_size,
                    graphs=graphs,
                    graph_max_bs=cap,
                    attention_backend=backend,
                )
                cells.add(key, load, reason)


def default_maxreq(budget: int, block_size: int, dialect: Dialect, rows_prior: int) -> int:
    """The largest power of two of requests whose rows stay within the prior, at least 1."""
    fitting = rows_prior // (block_size if dialect.width == "block_size" else budget + 1)
    return 1 << (fitting.bit_length() - 1) if fitting else 1


def fill_points(
    cells: Cells,
    file: PointsFile,
    axes: Mapping[str, Sequence[Any]],
    load: Load,
    reader: Reader,
    rows_prior: int,
) -> tuple[Item, ...]:
    """The configurations of a file, in its order; problems go to the reader.

    A variable given with -e replaces what the file says; one from the inventory fills what the file lacks.
    """
    for name, axis in axes.items():
        if len(axis) > 1:
            wrong = "is a list, and with points each configuration has one value"
            reader.complain(name, wrong, ALLOWED_IN_POINT[name])
    for name in (*KEY_FIELDS, *CLIENT_VARIABLES):
        if reader.forced(name) and any(name in point.values for point in file.points):
            cells.notes.append(f"{name} given with -e replaces what {file.name} says")
    given = {name: axis[0] for name, axis in axes.items()}
    forced = {name: value for name, value in given.items() if reader.forced(name)}
    defaults = {"topk": DEFAULT_TOPK if cells.dialect.capabilities.tree else 1}
    defaults |= {"block_size": USUAL_BLOCK_SIZE, "graphs": True}
    for number, point in enumerate(file.points, start=1):
        found = _read_point(point, file, reader)
        key = _key({**defaults, **given, **found, **forced}, cells.dialect, rows_prior)
        if key is not None:
            cells.add(key, _load(found, load, reader), f"point {number} of {Path(file.name).name}")
        elif "budget" not in point.values:
            file.complain(point.line, "names no budget", "a budget for each configuration")
            reader.problems.append(file.problems[-1])
    return cells.items(cells.loads, rows_prior)


def _read_point(point: Point, file: PointsFile, reader: Reader) -> dict[str, Any]:
    """The values of one configuration that can be read."""
    found = {}
    for name, value in point.values.items():
        read = counts if name in CLIENT_VARIABLES else READ_ONE[name]
        result = reader.judge(name, value, read, file.origin(point.line), ALLOWED_IN_POINT[name])
        if result is not None:
            found[name] = result
    return found


def _key(found: dict[str, Any], dialect: Dialect, rows_prior: int) -> RestartKey | None:
    """The restart key of one configuration; None when its budget is missing."""
    if "budget" not in found and dialect.changes("budget"):
        return None
    budget = found.get("budget", found["block_size"] - 1)
    return RestartKey(
        budget=budget,
        topk=found["topk"],
        maxreq=found.get("maxreq") or default_maxreq(budget, found["block_size"], dialect, rows_prior),
        block_size=found["block_size"],
        graphs=found["graphs"],
        graph_max_bs=found.get("graph_max_bs"),
        attention_backend=found.get("attention_backend"),
    )


def _load(found: Mapping[str, Any], load: Load, reader: Reader) -> Load:
    """The load of one configuration: its own, where -e does not give another."""
    own = {name: found[name] for name in CLIENT_VARIABLES if name in found and not reader.forced(name)}
    return msgspec.structs.replace(load, **own)


def _risk(key: RestartKey) -> tuple[int, bool, int, int, int, int, int, str]:
    return (
        key.rows,
        key.graphs,
        key.budget,
        key.maxreq,
        key.topk,
        key.block_size,
        key.graph_max_bs or 0,
        key.attention_backend or "",
    )
