"""A plan played against a truth table: what it would measure, believe and get wrong.

Nothing runs. A trial takes one unit of time.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from treeline.keys import Item, Known, Plan, RestartKey
from treeline.plan.agenda import Agenda
from treeline.plan.cells import Cell
from treeline.plan.evidence import Evidence
from treeline.plan.history import InFlight, Past
from treeline.plan.outcome import cells_of
from treeline.plan.search import Search
from treeline.plan.sheet import Contradiction, Sheet
from treeline.plan.truth import Truth
from treeline.records import Effect

Verdict = Literal["good", "bad", "mixed", "unknown"]
_ONE_HOST = "host1"


@dataclass(frozen=True)
class Believed:
    """What a plan says of one cell in the end. ``measured``: it was run itself."""

    key: RestartKey
    verdict: Verdict
    measured: bool
    cell: Cell


@dataclass(frozen=True)
class Simulated:
    """A plan that was played to its end. ``time`` is in trials; several hosts work at once."""

    trials: tuple[tuple[Item, Past], ...]
    believed: tuple[Believed, ...]
    sheets: tuple[Sheet, ...]
    wrong: int
    time: float

    @property
    def contradictions(self) -> tuple[Contradiction, ...]:
        """What was measured otherwise than it was implied."""
        return tuple(found for sheet in self.sheets for found in sheet.contradictions)

    @property
    def restarts(self) -> int:
        """Service lives, repeats included."""
        return len(self.trials)

    def count(self, purpose: str) -> int:
        """Service lives for one purpose."""
        return sum(item.purpose == purpose for item, _ in self.trials)


def simulate(plan: Plan, truth: Truth, *, seed: int = 0, hosts: int = 1) -> Simulated:
    """Play the search of a frontier plan against a truth. The same seed gives the same trials.

    Raises:
        ValueError: the plan is no frontier plan.
    """
    if plan.frontier is None:
        raise ValueError("only a frontier plan is played against a truth")
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret

    def nature(item: Item) -> Effect:
        cell = truth.by_slug[item.cell]
        if cell.certain:
            return cell.failing if cell.p_fail else "good"
        return cell.failing if chance.random() < cell.p_fail else "good"

    evidence, trials, time = play(plan, nature, hosts=hosts)
    search = Search(plan.frontier, evidence, Known())
    believed = _believed(search)
    return Simulated(
        trials=tuple(trials),
        believed=believed,
        sheets=search.sheets,
        wrong=sum(_is_wrong(one, truth) for one in believed),
        time=time,
    )


def play(
    plan: Plan,
    nature: Callable[[Item], Effect],
    *,
    hosts: int = 1,
    evidence: Evidence | None = None,
    known: Known | None = None,
) -> tuple[Evidence, list[tuple[Item, Past]], float]:
    """Hand out items until nothing is wanted; ``nature`` says how each trial ends.

    Returns the evidence, the trials in the order of their ends, and the time that it took.
    """
    evidence = evidence or Evidence()
    known = known or Known()
    trials: list[tuple[Item, Past]] = []
    flying: dict[str, tuple[Item, InFlight]] = {}
    ends: list[tuple[float, int, str]] = []
    now, begun = 0.0, 0
    while True:
        agenda = Agenda(plan, evidence, known)
        for number in range(hosts):
            host = f"host{number + 1}" if hosts > 1 else _ONE_HOST
            if host in flying:
                continue
            item = agenda.pick(host, [flight for _, flight in flying.values()])
            if item is None:
                continue
            begun += 1
            flying[host] = (
                item,
                InFlight(trial_id=f"t{begun}", item_id=item.item_id, cell=item.cell, host=host),
            )
            heapq.heappush(ends, (now + 1, begun, host))
        if not ends:
            return evidence, trials, now
        now, _, host = heapq.heappop(ends)
        item, flight = flying.pop(host)
        past = Past(
            trial_id=flight.trial_id, item_id=item.item_id, cell=item.cell, host=host, effect=nature(item)
        )
        trials.append((item, past))
        evidence.add(past)


def _believed(search: Search) -> tuple[Believed, ...]:
    found = cells_of(search)
    believed = []
    for part in search.spec.slices:
        for key in part.restart_keys():
            cell = found[key.slug]
            measured = bool(cell.goods or cell.fails)
            believed.append(Believed(key, verdict_of(cell), measured, cell))
    return tuple(believed)


def verdict_of(cell: Cell) -> Verdict:
    """A cell's state as one of four words; whether it was measured is told apart."""
    verdicts: dict[str, Verdict] = {
        "good": "good",
        "implied_good": "good",
        "bad": "bad",
        "implied_bad": "bad",
        "known_bad": "bad",
        "mixed": "mixed",
    }
    return verdicts.get(cell.state, "unknown")


def _is_wrong(one: Believed, truth: Truth) -> bool:
    """Whether a verdict is against the truth; of a cell that fails now and then any verdict may be true."""
    nature = truth.cells[one.key]
    if not nature.certain or one.verdict not in ("good", "bad"):
        return False
    return (one.verdict == "bad") != bool(nature.p_fail)
