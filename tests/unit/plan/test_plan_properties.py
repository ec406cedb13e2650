"""Random sweeps: whatever the trials give, the plan ends and repeats nothing that is decided."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from plan_builders import plan
from random_sweeps import EFFECTS, play
from treeline.keys import Item
from treeline.plan import MAX_BACKS, Past, cells


def a_repeat_was_asked_for(step: Item, history: list[Past]) -> None:
    if step.purpose == "retry":
        first = [trial.effect for trial in history if trial.item_id == f"{step.cell}/explore/1"]
        assert first[-1] in ("repeat", "repeat_transient")


def run_sweep(budgets: list[int], hosts: list[str], seed: int, weights: list[int]) -> list[Past]:
    return play(plan(*budgets), hosts, seed, weights, a_repeat_was_asked_for)


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
