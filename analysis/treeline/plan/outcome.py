"""What is known of the cells of a plan, measured and implied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from treeline.keys import Item, Known, Plan
from treeline.plan.cells import Cell, CellState, judge
from treeline.plan.evidence import Evidence
from treeline.plan.history import Past
from treeline.plan.search import Search
from treeline.plan.sheet import UNBOUNDED, ColumnState

NOTHING_KNOWN = Known()


def cells(plan: Plan, history: Sequence[Past], known: Known = NOTHING_KNOWN) -> dict[str, Cell]:
    """What is known about every planned cell, by cell.

    Cells of a frontier that were not measured are ``implied_good`` or ``implied_bad`` where others say so,
    and ``open`` where nothing does yet. ``known_bad`` cells were not measured either: the crash memory names
    them.
    """
    return cells_by(plan, Evidence.of(history), known)


def cells_by(plan: Plan, evidence: Evidence, known: Known) -> dict[str, Cell]:
    """The same for evidence that is at hand."""
    if plan.frontier is None:
        return {item.cell: _listed(item, evidence, known) for item in plan.items if item.purpose == "explore"}
    return cells_of(Search(plan.frontier, evidence, known))


def cells_of(search: Search) -> dict[str, Cell]:
    """The same for a search that is at hand."""
    found: dict[str, Cell] = {}
    for sheet in search.sheets:
        for column in sheet.columns:
            for limit in column.limits:
                slug = sheet.slice.key(column.budget, limit).slug
                found[slug] = _searched(search, column, limit, slug)
    return found


def _listed(item: Item, evidence: Evidence, known: Known) -> Cell:
    items = evidence.items_of(item.cell)
    if not items and item.cell in known.bad:
        return Cell(item.cell, "known_bad", known.bad[item.cell], closes=True)
    # Lives of the finals come after the cell was decided; without it they would say nothing.
    return judge(item.cell, items)


def _searched(search: Search, column: ColumnState, limit: int, slug: str) -> Cell:
    cell = search.evidence.cell(slug)
    if cell.state != "open":
        return cell
    side = column.implied.get(limit)
    if side is not None and cell.owed is None:
        state: CellState = "implied_good" if side == "good" else "implied_bad"
        return Cell(slug, state, why_implied(column, limit))
    if limit in column.marks and slug in search.known.bad:
        return Cell(slug, "known_bad", search.known.bad[slug], closes=True)
    return cell


def why_implied(column: ColumnState, limit: int) -> str:
    """Which measured cell an implied one follows from."""
    if limit < column.highest_good:
        return f"budget {column.budget} works at maxreq {column.highest_good}"
    if limit > column.lowest_bad:
        return f"budget {column.budget} fails at maxreq {column.lowest_bad}"
    return f"a smaller budget fails at maxreq {column.ceiling}"


def known_and_open(plan: Plan, history: Sequence[Past], known: Known = NOTHING_KNOWN) -> str:
    """What is known and what is open: ``known: 41 of 72 cells (18 measured, 23 implied); open: 31``."""
    found = cells(plan, history, known)
    counts = Counter(basis(cell) for cell in found.values())
    shown = [name for name in ("measured", "implied", "remembered") if counts[name]]
    told = ", ".join(f"{counts[name]} {name}" for name in shown)
    return (
        f"known: {len(found) - counts['open']} of {len(found)} cells"
        f"{f' ({told})' if told else ''}; open: {counts['open']}"
    )


def basis(cell: Cell) -> str:
    """What is known of a cell rests on: measured, implied or remembered; open where nothing is."""
    names: Mapping[CellState, str] = {
        "open": "open",
        "known_bad": "remembered",
        "implied_good": "implied",
        "implied_bad": "implied",
    }
    return names.get(cell.state, "measured")


def border(column: ColumnState) -> str:
    """The border of a column in words, such as ``works up to maxreq 64, fails from 96 on``."""
    works = [limit for limit in column.limits if limit < column.boundary] if column.alive else []
    if column.open:
        return "not decided yet"
    if not works:
        return "fails at every limit"
    if column.boundary == UNBOUNDED or works[-1] == column.limits[-1]:
        return f"works up to maxreq {works[-1]}, the largest limit"
    return f"works up to maxreq {works[-1]}, fails from {column.boundary} on"
