"""A truth table to try a plan against: which cells work, fail, or fail now and then."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from treeline.keys import SWITCH_WORDS, USUAL_BLOCK_SIZE, Column, Frontier, Plan, RestartKey, Slice
from treeline.records import Effect

DEFAULT_TOPK = 8
NEEDED = ("budget", "maxreq", "status")
OPTIONAL = ("topk", "graphs", "p_fail")
# Status as in the records, or a plain word -> what a trial of such a cell says when it fails.
FAILING: dict[str, Effect] = {
    **dict.fromkeys(("bad", "crash", "garbled", "fallback", "accept_collapse", "rejected"), "bad"),
    **dict.fromkeys(("implied_bad", "known_bad", "fail", "failed"), "bad"),
    **dict.fromkeys(("timeout", "unknown"), "repeat"),
    "transient": "repeat_transient",
}
WORKING = ("ok", "good", "implied_good")


class TruthError(ValueError):
    """A truth table that cannot be used; the message names the line."""


@dataclass(frozen=True)
class Chance:
    """A cell's nature: how probable a failed trial is, and what a failed trial says."""

    p_fail: float
    failing: Effect = "bad"

    @property
    def certain(self) -> bool:
        """Whether every trial of it ends alike."""
        return self.p_fail in (0.0, 1.0)


@dataclass(frozen=True)
class Truth:
    """Every cell of a table by its restart key. ``with_topk``/``with_graphs``: the table has that column."""

    cells: Mapping[RestartKey, Chance]
    with_topk: bool = False
    with_graphs: bool = False
    by_slug: Mapping[str, Chance] = field(default_factory=dict)

    @classmethod
    def of(
        cls, cells: Mapping[RestartKey, Chance], *, with_topk: bool = False, with_graphs: bool = False
    ) -> Truth:
        """A truth with its index by cell."""
        return cls(cells, with_topk, with_graphs, {key.slug: chance for key, chance in cells.items()})

    @classmethod
    def of_heights(cls, budgets: Iterable[int], limits: Iterable[int], heights: Iterable[int]) -> Truth:
        """A staircase: at each budget so many of the limits, counted from the smallest, work."""
        ordered = sorted(limits)
        return cls.of(
            {
                cell_key(budget, limit): Chance(float(place >= height))
                for budget, height in zip(budgets, heights, strict=True)
                for place, limit in enumerate(ordered)
            }
        )


def cell_key(budget: int, maxreq: int, topk: int = DEFAULT_TOPK, graphs: bool = True) -> RestartKey:
    """The restart key of one line of a table."""
    return RestartKey(budget=budget, topk=topk, maxreq=maxreq, block_size=USUAL_BLOCK_SIZE, graphs=graphs)


def plan_for(truth: Truth, **options: object) -> Plan:
    """The frontier plan over the cells of a table; ``options`` are fields of ``Frontier``."""
    slices: dict[tuple[int, bool], dict[int, list[int]]] = {}
    for key in truth.cells:
        slices.setdefault((key.topk, key.graphs), {}).setdefault(key.budget, []).append(key.maxreq)
    parts = tuple(
        Slice(
            topk=topk,
            block_size=USUAL_BLOCK_SIZE,
            graphs=graphs,
            columns=tuple(
                Column(budget=budget, maxreqs=tuple(sorted(limits)))
                for budget, limits in sorted(columns.items())
            ),
        )
        for (topk, graphs), columns in sorted(slices.items())
    )
    return Plan(kind="frontier", items=(), frontier=Frontier(slices=parts, **options))  # type: ignore[arg-type]


def read(text: str) -> Truth:
    """Read a truth table from CSV text with a header.

    Columns budget, maxreq and status; optional topk, graphs and p_fail (the share of trials that fail).

    Raises:
        TruthError: a column or a value is missing or wrong, a cell is named twice.
    """
    reader = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True)
    header: list[str] | None = None
    cells: dict[RestartKey, Chance] = {}
    for row in reader:
        values = [value.strip() for value in row]
        if not any(values) or values[0].startswith("#"):
            continue
        if header is None:
            header = _header(values)
            continue
        if len(values) != len(header):
            raise TruthError(f"line {reader.line_num}: {len(values)} values for {len(header)} columns")
        key, chance = _line(dict(zip(header, values, strict=True)), reader.line_num)
        if key in cells:
            raise TruthError(f"line {reader.line_num}: {key.label} is named twice")
        cells[key] = chance
    if not cells:
        raise TruthError(f"no cell: a header with {', '.join(NEEDED)} and at least one line are needed")
    names = header or []
    return Truth.of(cells, with_topk="topk" in names, with_graphs="graphs" in names)


def _header(values: list[str]) -> list[str]:
    names = [value.lower() for value in values]
    missing = [name for name in NEEDED if name not in names]
    strange = [name for name in names if name not in (*NEEDED, *OPTIONAL)]
    if missing or strange or len(set(names)) != len(names):
        wrong = f"lacks {', '.join(missing)}" if missing else f"has {', '.join(strange) or 'a column twice'}"
        raise TruthError(f"the header {wrong}. Columns: {', '.join(NEEDED)}; optional: {', '.join(OPTIONAL)}")
    return names


def _line(values: Mapping[str, str], number: int) -> tuple[RestartKey, Chance]:
    whole = {
        name: _whole(values[name], name, number) for name in ("budget", "maxreq", "topk") if values.get(name)
    }
    for name in ("budget", "maxreq"):
        if name not in whole:
            raise TruthError(f"line {number}: no {name}")
    graphs = True
    if values.get("graphs"):
        word = values["graphs"].lower()
        known = {**SWITCH_WORDS, "1": True, "0": False}
        if word not in known:
            raise TruthError(f"line {number}: graphs: {word!r} is neither on nor off")
        graphs = known[word]
    key = cell_key(whole["budget"], whole["maxreq"], whole.get("topk", DEFAULT_TOPK), graphs)
    return key, _chance(values["status"].lower(), values.get("p_fail", ""), number)


def _chance(status: str, p_fail: str, number: int) -> Chance:
    if status not in FAILING and status not in WORKING:
        raise TruthError(
            f"line {number}: status {status!r} is not known. Allowed: {', '.join((*WORKING[:2], *FAILING))}"
        )
    usual = 0.0 if status in WORKING else 1.0
    if not p_fail:
        return Chance(usual, FAILING.get(status, "bad"))
    try:
        share = float(p_fail)
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1:
        raise TruthError(f"line {number}: p_fail: {p_fail!r} is not a number from 0 to 1")
    return Chance(share, FAILING.get(status, "bad"))


def _whole(text: str, name: str, number: int) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= 1_000_000:
        raise TruthError(f"line {number}: {name}: {text[:40]!r} is not a whole number >= 1")
    return int(text)
