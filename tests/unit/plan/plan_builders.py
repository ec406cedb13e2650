"""Plans and histories in few words."""

from __future__ import annotations

from treeline.keys import ClientKey, Item, Plan, RestartKey
from treeline.plan import InFlight, Past
from treeline.records import Effect


def key(budget: int = 8, maxreq: int = 64) -> RestartKey:
    return RestartKey(budget=budget, topk=8, maxreq=maxreq, block_size=8, graphs=True)


def item(budget: int = 8, maxreq: int = 64) -> Item:
    return Item.of(key(budget, maxreq), [ClientKey(concurrency=1)], reason="grid")


def plan(*budgets: int) -> Plan:
    return Plan(kind="grid", items=tuple(item(budget) for budget in budgets))


def past(
    of: Item, effect: Effect | None, host: str = "lab1", trial: str = "t", *, this_run: bool = True
) -> Past:
    return Past(
        trial_id=trial,
        item_id=of.item_id,
        cell=of.cell,
        host=host,
        effect=effect,
        this_run=this_run,
        what=f"it was {effect}",
    )


def flying(of: Item, host: str = "lab2") -> InFlight:
    return InFlight(trial_id="f", item_id=of.item_id, cell=of.cell, host=host)
