"""Plans and histories in few words."""

from __future__ import annotations

from treeline.keys import ClientKey, Column, Finals, Frontier, Item, Load, Plan, RestartKey, Slice
from treeline.plan import Done, InFlight, Past, next_step
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


def frontier(
    budgets: tuple[int, ...] = (8, 16, 32),
    limits: tuple[int, ...] = (16, 32, 64, 128),
    topks: tuple[int, ...] = (8,),
    finals: Finals | None = None,
    baseline: Item | None = None,
    **options: object,
) -> Plan:
    """A frontier plan; no audits and no confirmations unless they are asked for."""
    columns = tuple(Column(budget=budget, maxreqs=limits) for budget in budgets)
    slices = tuple(Slice(topk=topk, block_size=8, graphs=True, columns=columns) for topk in topks)
    chosen = {"audit_share": 0.0, "confirm": False} | options
    search = Frontier(slices=slices, load=Load(concurrency=(1,)), **chosen)
    return Plan(kind="frontier", items=(), frontier=search, finals=finals, baseline=baseline)


def cell(budget: int, maxreq: int, topk: int = 8) -> str:
    return f"b{budget}-k{topk}-m{maxreq}-bs8-g1"


def end(
    item_id: str,
    effect: Effect | None,
    host: str = "lab1",
    trial: str = "t",
    rate: float | None = None,
    *,
    this_run: bool = True,
) -> Past:
    """A trial of an item given by its id; ``rate`` is its tokens/s at 8 clients."""
    return Past(
        trial_id=trial,
        item_id=item_id,
        cell=item_id.split("/")[0],
        host=host,
        effect=effect,
        this_run=this_run,
        what=f"it was {effect}",
        throughput={} if rate is None else {"8": rate},
    )


def step(plan: Plan, history: list[Past], **more: object) -> Item:
    found = next_step(plan, history, more.pop("in_flight", []), more.pop("host", "lab1"), **more)
    assert isinstance(found, Item), found
    return found


def drive(plan: Plan, bad: set[tuple[int, int]], history: list[Past] | None = None) -> list[Past]:
    """Run the search to its end where exactly these cells (budget, maxreq) are bad."""
    past = list(history or [])
    for number in range(200):
        found = next_step(plan, past, [], "lab1")
        if isinstance(found, Done):
            assert found.complete
            return past
        assert isinstance(found, Item)
        place = (found.key.budget, found.key.maxreq)
        past.append(end(found.item_id, "bad" if place in bad else "good", trial=f"t{number}"))
    raise AssertionError("the search did not end")
