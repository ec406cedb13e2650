"""How many restarts a plan is expected to take, before it starts and as it goes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from treeline.keys import Frontier, Item, Known, Plan, Slice
from treeline.plan import finals
from treeline.plan.agenda import Agenda
from treeline.plan.evidence import Evidence
from treeline.plan.history import History, Past
from treeline.plan.search import Search
from treeline.plan.sheet import Sheet
from treeline.plan.walk import audits, confirmations

if TYPE_CHECKING:
    from treeline.store import TrialLog

NOTHING_KNOWN = Known()


@dataclass(frozen=True)
class Expected:
    """Restarts still to come, by what they are for; those of a search are estimates.

    ``listed`` are the items of a grid or a list of points. ``throughput`` are the cells that are measured
    next for their speed; how many follow depends on what they give. ``lives`` are finalists and anchors.
    """

    baseline: int = 0
    listed: int = 0
    walk: int = 0
    confirmations: int = 0
    audits: int = 0
    throughput: int = 0
    lives: int = 0
    soaks: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.search + self.baseline + self.listed + self.throughput + self.lives + self.soaks

    @property
    def search(self) -> int:
        """Those that find the frontier."""
        return self.walk + self.confirmations + self.audits


def remaining(plan: Plan, history: Sequence[Past], known: Known = NOTHING_KNOWN) -> int:
    """Restarts still to come, those in flight included; for a frontier an estimate."""
    return expected(plan, history, known).total


def expected(plan: Plan, history: Sequence[Past] = (), known: Known = NOTHING_KNOWN) -> Expected:
    """Restarts still to come after these trials."""
    agenda = Agenda(plan, Evidence.of(history), known)
    items = agenda.open_items()
    lives, soaks = _finals_left(agenda)
    baseline = sum(item.purpose == "baseline" or item.cell == _baseline_cell(plan) for item in items)
    if agenda.search is None:
        listed = sum(item.lives_group is None and item.soak_s is None for item in items) - baseline
        return Expected(baseline=baseline, listed=listed, lives=lives, soaks=soaks)
    slices = _slices_left(agenda.search)
    return Expected(
        baseline=baseline,
        walk=sum(walk for walk, _, _ in slices),
        confirmations=sum(confirming for _, confirming, _ in slices),
        audits=sum(auditing for _, _, auditing in slices),
        throughput=0 if agenda.searching else len(agenda.throughput()),
        lives=lives,
        soaks=soaks,
    )


def position(
    plan: Plan, log: TrialLog, hardware_class: str, item: Item, known: Known = NOTHING_KNOWN
) -> tuple[int, int]:
    """``k`` of ``n`` for people.

    Of a list: the how-many-eth cell this is, in the order of first starts; repeats keep the number of the
    cell they repeat. Of a search: the how-many-eth item, of those begun and those expected to follow.
    """
    mine = [line for line in log.started.values() if line.hardware_class == hardware_class]
    if plan.frontier is None:
        begun = dict.fromkeys(line.cell for line in mine if line.purpose == "explore")
        order = list(begun) if item.cell in begun else [*begun, item.cell]
        planned = sum(entry.purpose == "explore" for entry in plan.items)
        # A baseline or an anchor of another cell is none of the cells that were asked for.
        return min(order.index(item.cell) + 1, planned), planned
    items = list(dict.fromkeys([*(line.item_id for line in mine), item.item_id]))
    history = History.of(log, hardware_class, this_run=lambda _: True, in_flight=lambda _: False)
    settled = len({past.item_id for past in history.past if past.effect is not None})
    place = items.index(item.item_id) + 1
    return place, max(settled + remaining(plan, history.past, known), place)


def most_of_search(spec: Frontier) -> int:
    """Restarts that find the frontier at most, where failures are monotone and none is repeated."""
    return sum(_most(part, spec) for part in spec.slices)


def _most(part: Slice, spec: Frontier) -> int:
    columns = len(part.columns)
    rows = max(len(column.maxreqs) for column in part.columns)
    cells = sum(len(column.maxreqs) for column in part.columns)
    auditing = math.floor(spec.audit_share * cells) + 2 if spec.audit_share else 0
    return columns + rows - 1 + (min(columns, rows) if spec.confirm else 0) + auditing


def _baseline_cell(plan: Plan) -> str | None:
    return plan.baseline.cell if plan.baseline is not None else None


def _slices_left(search: Search) -> list[tuple[int, int, int]]:
    """Walk, confirmations and audits still to come for each slice; estimates while its walk goes on."""
    families: set[object] = set()
    found = []
    for sheet in search.sheets:
        found.append(_slice_left(search, sheet, guessed=sheet.slice.family in families))
        families.add(sheet.slice.family)
    return found


def _slice_left(search: Search, sheet: Sheet, *, guessed: bool) -> tuple[int, int, int]:
    spec = search.spec
    confirming = len(confirmations(sheet, search.evidence)) if spec.confirm else 0
    undecided = [column for column in sheet.columns if column.open]
    if not undecided:
        return len(sheet.owed), confirming, len(audits(sheet, spec.audit_share, spec.salt))
    columns, steps = len(undecided), max(len(column.open) for column in undecided)
    # A staircase has about n m / (n + m) corners; with a guess only these are walked besides the columns.
    corners = max(round(columns * steps / (columns + steps)), 1)
    walking = columns + corners if guessed else columns + steps - 1
    cells = sum(len(column.limits) for column in sheet.columns)
    implied = max(cells - sum(len(column.marks) for column in sheet.columns) - walking, 0)
    auditing = 2 * math.ceil(spec.audit_share * implied / 2)
    return walking, confirming + (corners if spec.confirm else 0), auditing


def _finals_left(agenda: Agenda) -> tuple[int, int]:
    """Lives and soaks still to come; while nobody is known to take part, as if all that may did."""
    spec = agenda.plan.finals
    if spec is None:
        return 0, 0
    taking_part = finals.contest(spec, agenda.evidence, agenda.keys_run)
    soaks = int(spec.soak_s is not None)
    if not taking_part.finalists:
        if not agenda.searching:
            return 0, 0
        return spec.lives * spec.finalists + min(spec.lives, 3), soaks
    left = finals.wanted(spec, agenda.evidence, agenda.keys_run, agenda.load)
    if any(life.item.soak_s is not None for life in left):
        return 0, 1
    return len(left), soaks if left else 0
