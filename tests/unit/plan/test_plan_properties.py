"""Random sweeps: whatever the trials give, the plan ends and repeats nothing that is decided."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from plan_builders import flying, past, plan
from treeline.keys import Item
from treeline.plan import MAX_BACKS, Done, InFlight, Out, Past, Stop, Wait, cells, next_step
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


def run_sweep(budgets: list[int], hosts: list[str], seed: int, weights: list[int]) -> list[Past]:
    """Play a sweep with hosts that ask, finish and fail in random order; checks the rules on the way."""
    chance = random.Random(seed)
    wanted = plan(*budgets)
    history: list[Past] = []
    flights: dict[str, InFlight] = {}
    items: dict[str, Item] = {}
    active = set(hosts)
    for _ in range(2000):
        if not active and not flights:
            return history
        asking = sorted(active - flights.keys())
        if flights and (not asking or chance.random() < 0.5):
            host = chance.choice(sorted(flights))
            flight = flights.pop(host)
            effect = chance.choices(EFFECTS, weights)[0]
            history.append(past(items[flight.item_id], effect, host, f"t{len(history)}"))
            continue
        if not asking:
            continue
        host = chance.choice(asking)
        arguments = (wanted, tuple(history), tuple(flights.values()), host)
        step = next_step(*arguments)
        assert step == next_step(*arguments)
        if isinstance(step, Item):
            _check_is_owed(step, history, flights)
            items[step.item_id] = step
            flights[host] = flying(step, host)
        elif isinstance(step, Wait):
            assert flights
        else:
            assert isinstance(step, Done | Out | Stop)
            active.discard(host)
    raise AssertionError("the sweep did not end")


def _check_is_owed(step: Item, history: list[Past], flights: dict[str, InFlight]) -> None:
    assert step.item_id not in {flight.item_id for flight in flights.values()}
    before = [trial.effect for trial in history if trial.item_id == step.item_id]
    assert not {"good", "bad", "repeat", "repeat_transient", "dialect", "setup"} & set(before)
    assert len(before) <= MAX_BACKS
    if step.purpose == "retry":
        first = [trial.effect for trial in history if trial.item_id == f"{step.cell}/explore/1"]
        assert first[-1] in ("repeat", "repeat_transient")


@settings(max_examples=150, deadline=None)
@given(
    budgets=st.lists(st.integers(1, 64), min_size=1, max_size=8, unique=True),
    hosts=st.integers(1, 4),
    seed=st.integers(0, 2**32),
    weights=st.lists(st.integers(0, 5), min_size=len(EFFECTS), max_size=len(EFFECTS)).filter(any),
)
def test_every_sweep_ends_without_repeating_what_is_decided(
    budgets: list[int], hosts: int, seed: int, weights: list[int]
) -> None:
    history = run_sweep(budgets, [f"lab{n}" for n in range(1, hosts + 1)], seed, weights)
    per_item = Counter(trial.item_id for trial in history)
    assert all(count <= MAX_BACKS + 1 for count in per_item.values())
    assert all("/retry/3" not in trial.item_id for trial in history)


@settings(max_examples=80, deadline=None)
@given(
    budgets=st.lists(st.integers(1, 64), min_size=1, max_size=8, unique=True),
    hosts=st.integers(1, 3),
    seed=st.integers(0, 2**32),
)
def test_without_stops_every_cell_is_settled(budgets: list[int], hosts: int, seed: int) -> None:
    # Nothing here takes a host out or stops the sweep, so the plan must come to its end.
    weights = [4, 3, 2, 2, 0, 0, 0, 0, 1, 1]
    history = run_sweep(budgets, [f"lab{n}" for n in range(1, hosts + 1)], seed, weights)
    states = {cell.state for cell in cells(plan(*budgets), history).values()}
    assert "open" not in states
