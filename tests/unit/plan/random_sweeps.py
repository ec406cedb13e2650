"""Sweeps in which hosts ask, finish, fail and die in random order, and the rules that hold in all of them."""

from __future__ import annotations

import random
from collections.abc import Callable

from plan_builders import end
from treeline.keys import Item, Plan
from treeline.plan import MAX_BACKS, Done, InFlight, Out, Past, Stop, Wait, next_step, remaining
from treeline.records import Effect

EFFECTS: tuple[Effect | None, ...] = (
    "good",
    "bad",
    "repeat",
    "repeat_transient",
    "dialect",
    "setup",
    "void",
    "node",
    "back",
    None,
)


def play(
    plan: Plan,
    hosts: list[str],
    seed: int,
    weights: list[int],
    also: Callable[[Item, list[Past]], None] = lambda item, history: None,
) -> list[Past]:
    """Hosts that ask, finish, fail and die in random order; checks the rules on the way.

    ``also`` is asked about each item that is handed out, with the history before it.
    """
    chance = random.Random(seed)
    history: list[Past] = []
    flights: dict[str, tuple[Item, InFlight]] = {}
    active = set(hosts)
    for turn in range(3000):
        if not active and not flights:
            return history
        asking = sorted(active - flights.keys())
        if flights and (not asking or chance.random() < 0.5):
            host = chance.choice(sorted(flights))
            item, _ = flights.pop(host)
            effect = chance.choices(EFFECTS, weights)[0]
            history.append(end(item.item_id, effect, host, f"t{len(history)}", chance.random() * 100))
            continue
        if not asking:
            continue
        host = chance.choice(asking)
        flying = tuple(flight for _, flight in flights.values())
        step = next_step(plan, tuple(history), flying, host)
        assert step == next_step(plan, tuple(history), flying, host)
        if isinstance(step, Item):
            assert remaining(plan, history) > 0
            owed(step, history, flying)
            also(step, history)
            flights[host] = (
                step,
                InFlight(trial_id=f"f{turn}", item_id=step.item_id, cell=step.cell, host=host),
            )
        elif isinstance(step, Wait):
            assert flights
        else:
            assert isinstance(step, Done | Out | Stop)
            if isinstance(step, Done) and step.complete:
                assert remaining(plan, history) == 0
            active.discard(host)
    raise AssertionError("the sweep did not end")


def owed(step: Item, history: list[Past], flying: tuple[InFlight, ...]) -> None:
    assert step.item_id not in {flight.item_id for flight in flying}
    before = [past.effect for past in history if past.item_id == step.item_id]
    assert not {"good", "bad", "repeat", "repeat_transient", "dialect", "setup"} & set(before)
    assert len(before) <= MAX_BACKS
