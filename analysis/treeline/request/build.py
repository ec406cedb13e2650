"""From the variables of a run to a plan, or to everything that is wrong with them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from treeline.dialects import Dialect
from treeline.keys import KEY_FIELDS, ClientKey, Frontier, Item, Load, Plan, PlanKind
from treeline.request import sources, stages
from treeline.request.cells import Cells
from treeline.request.fill import LARGEST_GRID, Axes, fill_grid, fill_points, grid_size
from treeline.request.forecast import Costs, Rates, forecast_lines
from treeline.request.problems import Problem, RequestError
from treeline.request.public import CLIENT_VARIABLES, misplaced, stray_words, unknown_names
from treeline.request.reader import Options, Reader, counts, read_axes, read_options

DEFAULT_ROWS_PRIOR = 1200


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What a request is understood against, besides its variables.

    Attributes:
        extra_vars_names: names given with -e; they decide the origin in messages and outrank a points file.
        known_names: further names that are declared somewhere, so no typing errors.
        group_hosts: hosts of the inventory group, None when that is not known here.
        folders: where a relative points or dialect file is looked for, in this order.
        found_units: units that are down during trials, for the forecast.
        stray_words: words given with -e that are no NAME=VALUE, None when there are none.
    """

    extra_vars_names: Sequence[str] = ()
    known_names: Sequence[str] = ()
    rows_prior: int = DEFAULT_ROWS_PRIOR
    group: str = "sglang"
    group_hosts: Sequence[str] | None = None
    folders: Sequence[Path] = ()
    found_units: Sequence[str] = ()
    rates: Rates = Rates()
    stray_words: str | None = None


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A request that can be run.

    ``dialect`` is a name or an absolute path; ``axes`` has what occurs; ``forecast_trial_s`` is in seconds.
    """

    plan: Plan
    plan_hash: str
    dialect: str
    axes: dict[str, list[Any]]
    options: Options
    variables: dict[str, Any]
    notes: tuple[str, ...]
    forecast: tuple[str, ...]
    forecast_trial_s: float

    def to_dict(self) -> dict[str, Any]:
        """The outcome in dicts, lists, text, numbers and booleans; the fields by their names."""
        return {
            "plan": self.plan.to_dict(),
            "plan_hash": self.plan_hash,
            "dialect": self.dialect,
            "axes": self.axes,
            "options": self.options.to_dict(),
            "variables": self.variables,
            "notes": list(self.notes),
            "forecast": list(self.forecast),
            "forecast_trial_s": self.forecast_trial_s,
        }


def understand(variables: Mapping[str, Any], around: Surroundings | None = None) -> Outcome:
    """Check the variables of a run and make its plan.

    Args:
        variables: public name -> value as given (text, number, boolean, list); None is not given.

    Raises:
        RequestError: with every problem that was found.
    """
    around = around or Surroundings()
    reader = Reader(variables, around.extra_vars_names)
    reader.problems += misplaced(variables)
    typing_errors = unknown_names(around.extra_vars_names, around.known_names)
    reader.problems += typing_errors
    reader.problems += _faults_around(around)

    axes = read_axes(reader)
    load = Load(concurrency=reader.read("concurrency", counts), context=reader.read("context", counts))
    kind = sources.plan_kind(reader)
    points = sources.points_file(reader, around.folders) if kind == "points" else None
    dialect_name, dialect = sources.dialect(reader, points, around.folders)
    options = read_options(reader, sources.baseline(reader, points))
    wishes = stages.read(reader, kind)
    if kind in ("grid", "frontier"):
        budget_misspelt = any(problem.suggestion == "budget" for problem in typing_errors)
        _check_size(reader, kind, axes)
        if kind == "grid":
            _check_grid(reader, dialect, budget_misspelt)
    if dialect is None or kind is None or (kind == "points" and points is None):
        raise RequestError(reader.problems)

    cells = Cells(dialect)
    items: tuple[Item, ...] = ()
    frontier: Frontier | None = None
    if points is not None:
        items = fill_points(cells, points, axes, load, reader, around.rows_prior)
    elif kind == "frontier" and not reader.problems:
        frontier = stages.fill_frontier(cells, axes, load, around.rows_prior, wishes)
    elif not reader.problems:
        items = fill_grid(cells, Axes.of(axes, dialect), load, around.rows_prior)
    if reader.problems:
        raise RequestError(reader.problems)
    _check_not_empty(kind, cells)
    plan = Plan(
        kind=kind,
        items=items,
        excluded=cells.left_out(),
        frontier=frontier,
        finals=stages.finals(kind, wishes),
        baseline=stages.baseline_of(cells.loads) if options.baseline == "auto" else None,
    )
    return Outcome(
        plan=plan,
        plan_hash=plan.digest(dialect_name),
        dialect=dialect_name,
        axes=axes_of(plan),
        options=options,
        variables=dict(reader.variables),
        notes=(*_no_ops(reader, dialect), *cells.notes),
        forecast=forecast_lines(
            plan,
            dialect=dialect.name,
            rates=around.rates,
            rows_prior=around.rows_prior,
            hosts=around.group_hosts or (),
            units=around.found_units,
            costs=Costs.of(options),
        ),
        forecast_trial_s=around.rates.trial_s,
    )


def axes_of(plan: Plan) -> dict[str, list[Any]]:
    """The values that occur in a plan for each variable of key and load; sorted, None first."""
    found: dict[str, set[Any]] = {name: set() for name in (*KEY_FIELDS, *CLIENT_VARIABLES)}
    loads: list[Iterable[ClientKey]] = [item.client_keys for item in plan.items]
    for key in plan.restart_keys():
        for name in KEY_FIELDS:
            found[name].add(getattr(key, name))
        if plan.frontier is not None:
            loads.append(plan.frontier.load.keys(key.maxreq))
    for client_key in itertools.chain.from_iterable(loads):
        for name in CLIENT_VARIABLES:
            found[name].add(getattr(client_key, name))
    return {name: sorted(each, key=lambda v: (v is not None, v)) for name, each in found.items()}


def _faults_around(around: Surroundings) -> Iterable[Problem]:
    if around.stray_words is not None:
        yield stray_words(around.stray_words)
    if around.group_hosts is not None and not around.group_hosts:
        yield Problem(
            variable=f"inventory group {around.group!r}",
            wrong="is missing or has no hosts, so there is nothing to sweep",
            allowed=f"at least one host in the group {around.group} of the inventory given with -i; "
            "the default inventory is the lab, which `make lab` boots",
        )
    if around.rows_prior < 1:
        wrong = "is not a whole number >= 1"
        yield Problem("treeline_rows_prior", wrong, str(around.rows_prior), allowed="such as 1200")


def _check_grid(reader: Reader, dialect: Dialect | None, budget_misspelt: bool) -> None:
    needed = dialect is None or dialect.changes("budget")
    if needed and "budget" not in reader.variables and not budget_misspelt:
        allowed = "-e budget=8,16, or -e points=FILE for a list of configurations"
        reader.complain("budget", "is not given, and a grid needs it", allowed)


def _check_size(reader: Reader, kind: PlanKind, axes: Mapping[str, Sequence[Any]]) -> None:
    usual = {"budget": stages.FRONTIER_BUDGETS, "maxreq": stages.FRONTIER_MAXREQS}
    size = grid_size((usual if kind == "frontier" else {}) | dict(axes))
    if size > LARGEST_GRID:
        wrong = f"makes {size} configurations of these lists; at most {LARGEST_GRID} are taken"
        reader.problems.append(Problem("plan", wrong, repr(kind), allowed="shorter lists"))


def _check_not_empty(kind: PlanKind, cells: Cells) -> None:
    if not cells.loads:
        reasons = "; ".join(f"{left.key.label}: {left.reason}" for left in cells.left_out()[:3])
        wrong = f"leaves no configuration to run: {reasons}"
        raise RequestError([Problem("plan", wrong, repr(kind))])


def _no_ops(reader: Reader, dialect: Dialect) -> Iterable[str]:
    """A note for each given variable that this dialect cannot pass on to the engine."""
    for name in KEY_FIELDS:
        if name in reader.variables and name != "graphs" and not dialect.changes(name):
            yield f"{name}: dialect {dialect.name} has no setting for it, so its value changes nothing"
