"""The story of a search for people: the map so far, every step with its reason, what is believed and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from treeline.keys import Frontier, Item, Known, Plan
from treeline.plan.cells import Cell, CellState
from treeline.plan.evidence import Evidence
from treeline.plan.expect import expected
from treeline.plan.history import Past
from treeline.plan.outcome import border, cells_of, known_and_open
from treeline.plan.search import Search
from treeline.plan.sheet import Sheet
from treeline.plan.simulate import play
from treeline.plan.walk import in_words
from treeline.records import Effect

SYMBOLS: dict[CellState, str] = {
    "good": "G",
    "bad": "B",
    "mixed": "M",
    "implied_good": "g",
    "implied_bad": "b",
    "known_bad": "K",
    "unknown": "u",
    "open": "?",
}
"""A cell in a map, in one letter."""
LEGEND = (
    "G good, B bad, M mixed (measured); g good, b bad (implied, not measured); K bad by crash memory; "
    "u its trials decided nothing; ? open"
)


def hole_bound(clean_audits: int) -> float:
    """The share of implied cells that may be wrong after so many clean audits, with 95 % confidence."""
    return 1 - 0.05 ** (1 / clean_audits) if clean_audits else 1.0


def odds(cell: Cell) -> tuple[float, float]:
    """95 % bounds of the share of lives in which a measured cell fails; of one seen one way, one-sided.

    Of a mixed cell they are the two-sided exact interval; of one that never failed 0 and the upper bound, of
    one that always failed the lower bound and 1.
    """
    lives = cell.goods + cell.fails
    if not lives:
        return 0.0, 1.0
    if not cell.fails:
        return 0.0, 1 - 0.05 ** (1 / lives)
    if not cell.goods:
        return 0.05 ** (1 / lives), 1.0
    from treeline.stats.exact import clopper_pearson  # here, because it needs scipy

    return clopper_pearson(cell.fails, lives)


def odds_line(cell: Cell) -> str:
    """A measured cell's count and bounds, such as ``failed 1 of 3 lives, so in 0.8 % to 90.6 % of them``."""
    low, high = odds(cell)
    lives = cell.goods + cell.fails
    said = f"failed {cell.fails} of {lives} {'life' if lives == 1 else 'lives'}"
    if not cell.fails:
        return f"{said}, so in at most {100 * high:.1f} % of them (95 % sure)"
    if not cell.goods:
        return f"{said}, so in at least {100 * low:.1f} % of them (95 % sure)"
    return f"{said}, so in {100 * low:.1f} % to {100 * high:.1f} % of them (95 %)"


def search_lines(plan: Plan, history: Sequence[Past], known: Known) -> list[str]:
    """Map, borders, contradictions, audits and forecast of a frontier plan after these trials."""
    spec = plan.frontier
    if spec is None:
        return []
    search = Search(spec, Evidence.of(history), known)
    found = cells_of(search)
    lines: list[str] = []
    for sheet in search.sheets:
        lines += [f"slice {sheet.slice.label}", *map_lines(sheet, found), *_border_lines(sheet)]
    lines += [LEGEND, *_noise_lines(found), *belief_lines(search.sheets)]
    extra = extra_restarts(spec, search, found, history)
    if extra:
        lines.append(f"{extra} restarts were taken ahead by other hosts and were not needed in the end")
    coming = expected(plan, history, known)
    lines.append(
        f"{known_and_open(plan, history, known)}; still to come: about {coming.total} restarts "
        f"({coming.walk} walk, {coming.confirmations} confirmations, {coming.audits} audits, "
        f"{coming.baseline} baseline, {coming.throughput} for throughput, "
        f"{coming.lives} lives of finalists and anchors, {coming.soaks} soaks)"
    )
    return lines


def map_lines(sheet: Sheet, found: dict[str, Cell]) -> list[str]:
    """One slice as a map: maxreq upwards, budget to the right."""
    limits = sorted({limit for column in sheet.columns for limit in column.limits}, reverse=True)
    width = max(len(str(column.budget)) for column in sheet.columns) + 1
    left = max(len(str(limits[0])), len("maxreq"))
    lines = []
    for limit in limits:
        row = [_symbol(sheet, column.budget, limit, found).rjust(width) for column in sheet.columns]
        lines.append(f"  {limit:>{left}} {''.join(row)}")
    budgets = "".join(str(column.budget).rjust(width) for column in sheet.columns)
    return [f"  {'maxreq':>{left}}", *lines, f"  {'budget':>{left}} {budgets}"]


def belief_lines(sheets: Iterable[Sheet]) -> list[str]:
    """Contradictions that were measured, and what the clean audits say of the implied cells."""
    lines, clean, implied = [], 0, 0
    for sheet in sheets:
        clean += sheet.clean_audits()
        implied += sum(len(column.implied) for column in sheet.columns)
        lines += [
            f"contradiction in {sheet.slice.label}: {in_words(found)}, although its neighbours imply "
            f"{found.implied}; its column is measured cell by cell"
            for found in sheet.contradictions
        ]
    if not lines:
        lines.append("contradictions: none")
    audits = f"{clean} audits found what was implied"
    lines.append(
        f"{audits}: at most {100 * hole_bound(clean):.0f} % of the {implied} implied cells are wrong "
        "(95 % sure)"
    )
    return lines


def extra_restarts(spec: Frontier, search: Search, found: dict[str, Cell], history: Sequence[Past]) -> int:
    """Steps of the walk that one host alone would not have taken, as far as the verdicts tell."""
    if len({past.host for past in history}) < 2:
        return 0
    alone = Plan(
        kind="frontier",
        items=(),
        frontier=Frontier(slices=spec.slices, load=spec.load, audit_share=0.0, confirm=False),
    )

    def as_found(item: Item) -> Effect:
        return "good" if found[item.cell].state in ("good", "implied_good", "open") else "bad"

    _, needed, _ = play(alone, as_found, known=search.known)
    walked = {past.item_id for past in history if past.item_id.endswith("/explore/1") and past.effect}
    return max(len(walked) - len(needed), 0)


def _border_lines(sheet: Sheet) -> list[str]:
    return [f"  budget {column.budget} {border(column)}" for column in sheet.columns]


def _noise_lines(found: dict[str, Cell]) -> list[str]:
    return [f"{cell.cell} is mixed: {odds_line(cell)}" for cell in found.values() if cell.state == "mixed"]


def _symbol(sheet: Sheet, budget: int, limit: int, found: dict[str, Cell]) -> str:
    cell = found.get(sheet.slice.key(budget, limit).slug)
    return " " if cell is None else SYMBOLS[cell.state]
