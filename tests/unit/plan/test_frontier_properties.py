"""Random truths and random sweeps: bounds, no wrong cells, nothing done twice, and the same answer again."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_builders import frontier
from random_sweeps import EFFECTS, play
from treeline.keys import Plan
from treeline.plan import (
    MAX_BACKS,
    cells,
    expected,
    next_step,
    remaining,
)
from treeline.plan.simulate import simulate
from treeline.plan.truth import Chance, Truth, plan_for

BUDGETS = (8, 12, 16, 20, 24, 32, 48, 64)
LIMITS = (8, 16, 32, 48, 64, 96, 128, 192, 256)


def heights(chance: random.Random) -> tuple[int, ...]:
    """A border uniform over all monotone lattice paths of the 8 x 9 grid."""
    path = sorted(chance.sample(range(len(BUDGETS) + len(LIMITS)), len(BUDGETS)))
    return tuple(step - place for place, step in enumerate(path))[::-1]


def test_random_staircases_cost_little_and_no_cell_is_wrong() -> None:
    seed = 20261129
    print(f"seed {seed}")
    chance = random.Random(seed)
    runs = []
    for number in range(150):
        truth = Truth.of_heights(BUDGETS, LIMITS, heights(chance))
        runs.append(simulate(plan_for(truth, salt=str(number)), truth))
    assert max(run.count("explore") for run in runs) <= len(BUDGETS) + len(LIMITS) - 1
    restarts = [run.restarts for run in runs]
    assert sum(restarts) / len(restarts) <= 28
    assert max(restarts) <= 36
    assert sum(run.wrong for run in runs) == 0
    assert not any(run.contradictions for run in runs)


@settings(max_examples=60, deadline=None)
@given(
    columns=st.integers(1, 7),
    rows=st.integers(1, 7),
    picks=st.lists(st.integers(0, 7), min_size=7, max_size=7),
    salt=st.text(max_size=3),
)
def test_any_monotone_truth_is_found_within_the_bound(
    columns: int, rows: int, picks: list[int], salt: str
) -> None:
    truth = staircase(columns, rows, picks)
    run = simulate(plan_for(truth, salt=salt), truth)
    assert run.count("explore") <= columns + rows - 1
    assert run.wrong == 0
    assert not run.contradictions
    assert {one.verdict for one in run.believed} <= {"good", "bad"}


def staircase(columns: int, rows: int, picks: list[int]) -> Truth:
    steps = sorted((min(pick, rows) for pick in picks[:columns]), reverse=True)
    return Truth.of_heights(range(1, columns + 1), range(1, rows + 1), steps)


@pytest.mark.parametrize("position", range(len(BUDGETS)))
def test_a_dead_column_anywhere_costs_no_wrong_cell(position: int) -> None:
    chance = random.Random(position)
    for number in range(12):
        truth = Truth.of_heights(BUDGETS, LIMITS, heights(chance))
        dead = {
            key: Chance(1.0) if key.budget == BUDGETS[position] else nature
            for key, nature in truth.cells.items()
        }
        run = simulate(plan_for(Truth.of(dead), salt=str(number)), Truth.of(dead))
        assert run.wrong == 0


@settings(max_examples=60, deadline=None)
@given(
    bad=st.sets(st.tuples(st.integers(1, 5), st.integers(1, 5))),
    share=st.sampled_from([0.0, 0.1, 0.3, 1.0]),
    hosts=st.integers(1, 4),
)
def test_whatever_the_truth_is_measured_cells_are_right_and_the_search_ends(
    bad: set[tuple[int, int]], share: float, hosts: int
) -> None:
    truth = anything(bad)
    run = simulate(plan_for(truth, audit_share=share), truth, hosts=hosts)
    for one in run.believed:
        if one.measured:
            assert (one.verdict == "bad") == ((one.key.budget, one.key.maxreq) in bad)
    ids = [item.item_id for item, _ in run.trials]
    assert len(ids) == len(set(ids))
    if share == 1.0:
        assert run.wrong == 0


@settings(max_examples=60, deadline=None)
@given(bad=st.sets(st.tuples(st.integers(1, 5), st.integers(1, 5))), salt=st.text(max_size=3))
def test_every_audit_that_contradicts_is_reported_and_its_column_measured(
    bad: set[tuple[int, int]], salt: str
) -> None:
    truth = anything(bad)
    run = simulate(plan_for(truth, audit_share=0.3, salt=salt), truth)
    reported = {(found.budget, found.maxreq) for found in run.contradictions}
    for item, past in run.trials:
        implied = "good" if "cells implied good" in item.reason else "bad"
        if item.purpose == "audit" and past.effect != implied:
            assert (item.key.budget, item.key.maxreq) in reported
    for found in run.contradictions:
        assert all(one.measured for one in run.believed if one.key.budget == found.budget)


def anything(bad: set[tuple[int, int]]) -> Truth:
    full = Truth.of_heights(range(1, 6), range(1, 6), [5] * 5)
    return Truth.of({key: Chance(float((key.budget, key.maxreq) in bad)) for key in full.cells})


def test_cells_that_fail_now_and_then_are_mixed_where_they_are_seen_both_ways() -> None:
    chance = random.Random(5)
    mixed = 0
    for number in range(25):
        steps = heights(chance)
        truth = Truth.of_heights(BUDGETS, LIMITS, steps)
        rim = {(budget, LIMITS[step - 1]) for budget, step in zip(BUDGETS, steps, strict=True) if step}
        nature = {
            key: Chance(0.2) if (key.budget, key.maxreq) in rim else it for key, it in truth.cells.items()
        }
        run = simulate(plan_for(Truth.of(nature), salt=str(number)), Truth.of(nature), seed=number)
        for one in run.believed:
            assert (one.verdict == "mixed") == bool(one.cell.goods and one.cell.fails)
            mixed += one.verdict == "mixed"
    assert mixed


@settings(max_examples=60, deadline=None)
@given(
    budgets=st.integers(1, 4),
    limits=st.integers(1, 4),
    topks=st.integers(1, 2),
    hosts=st.integers(1, 4),
    seed=st.integers(0, 2**32),
    weights=st.lists(st.integers(0, 5), min_size=len(EFFECTS), max_size=len(EFFECTS)).filter(any),
    finals=st.booleans(),
)
def test_every_sweep_ends_and_repeats_nothing_that_is_decided(
    budgets: int, limits: int, topks: int, hosts: int, seed: int, weights: list[int], finals: bool
) -> None:
    plan = whole(budgets, limits, topks, finals)
    history = play(plan, [f"lab{number}" for number in range(1, hosts + 1)], seed, weights)
    assert all(count <= MAX_BACKS + 1 for count in Counter(past.item_id for past in history).values())


@settings(max_examples=40, deadline=None)
@given(
    budgets=st.integers(1, 4),
    limits=st.integers(1, 4),
    hosts=st.integers(1, 3),
    seed=st.integers(0, 2**32),
)
def test_without_stops_every_cell_is_decided(budgets: int, limits: int, hosts: int, seed: int) -> None:
    plan = whole(budgets, limits, 2, finals=True)
    weights = [4, 3, 2, 2, 0, 0, 0, 0, 1, 1]
    history = play(plan, [f"lab{number}" for number in range(1, hosts + 1)], seed, weights)
    assert "open" not in {found.state for found in cells(plan, history).values()}
    assert remaining(plan, history) == 0


def whole(budgets: int, limits: int, topks: int, finals: bool) -> Plan:
    from treeline.keys import Finals

    return frontier(
        budgets=tuple(range(1, budgets + 1)),
        limits=tuple(range(1, limits + 1)),
        topks=tuple(range(1, topks + 1)),
        audit_share=0.2,
        confirm=True,
        throughput=True,
        finals=Finals(lives=2, soak_s=60.0) if finals else None,
    )


def test_four_hosts_finish_one_slice_sooner_and_get_it_right() -> None:
    chance = random.Random(7)
    one, four = 0.0, 0.0
    for number in range(10):
        truth = Truth.of_heights(BUDGETS, LIMITS, heights(chance))
        plan = plan_for(truth, salt=str(number))
        alone, shared = simulate(plan, truth), simulate(plan, truth, hosts=4)
        assert shared.wrong == 0
        one, four = one + alone.time, four + shared.time
    assert four <= 0.6 * one


def test_four_slices_on_four_hosts_take_at_most_two_fifths_of_the_time() -> None:
    chance = random.Random(8)
    steps = heights(chance)
    nature = {
        part: kind
        for topk in (2, 4, 8, 16)
        for part, kind in with_topk(Truth.of_heights(BUDGETS, LIMITS, steps), topk).items()
    }
    truth = Truth.of(nature, with_topk=True)
    plan = plan_for(truth)
    alone, shared = simulate(plan, truth), simulate(plan, truth, hosts=4)
    assert shared.time <= 0.4 * alone.time
    assert alone.wrong == shared.wrong == 0


def with_topk(truth: Truth, topk: int) -> dict:  # type: ignore[type-arg]
    import msgspec

    return {msgspec.structs.replace(key, topk=topk): nature for key, nature in truth.cells.items()}


def test_the_forecast_shrinks_to_nothing_and_is_near_what_it_takes() -> None:
    chance = random.Random(9)
    for number in range(10):
        truth = Truth.of_heights(BUDGETS, LIMITS, heights(chance))
        plan = plan_for(truth, salt=str(number))
        run = simulate(plan, truth)
        before = expected(plan).total
        assert abs(before - run.restarts) <= 9
        history = [past for _, past in run.trials]
        assert remaining(plan, history) == 0
        assert remaining(plan, history[: len(history) // 2]) < before


def test_asking_a_big_plan_costs_no_more_than_reading_its_history() -> None:
    """The work of one question is counted in calls: at most some for each trial and each cell."""
    import cProfile
    import pstats

    def calls(slices: int) -> int:
        plan = frontier(budgets=BUDGETS, limits=LIMITS, topks=tuple(range(1, slices + 1)), audit_share=0.1)
        truth = {
            part.key(budget, limit): Chance(float(limit * (budget + 1) > 1200))
            for part in plan.frontier.slices  # type: ignore[union-attr]
            for budget in BUDGETS
            for limit in LIMITS
        }
        history = [past for _, past in simulate(plan, Truth.of(truth)).trials]
        profile = cProfile.Profile()
        profile.enable()
        next_step(plan, history, [], "lab1")
        profile.disable()
        return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]

    small, large = calls(3), calls(12)
    assert large <= 4.5 * small


def test_an_audit_that_says_nothing_is_not_drawn_again() -> None:
    """Three hosts, a step ahead of the walk that was given up, and an audit that the dialect made useless."""
    for weights in ([1, 0, 0, 2, 1, 0, 3, 0, 0, 4], [1, 0, 0, 1, 1, 0, 2, 0, 0, 2]):
        play(whole(2, 2, 1, False), ["lab1", "lab2", "lab3"], 101, weights)
