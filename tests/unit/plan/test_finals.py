"""Finalists in turns, anchors, the soak, and the search for the fastest budget."""

from __future__ import annotations

import msgspec
import pytest
from plan_builders import cell, end, frontier, item
from treeline.keys import Finals, Item, Load, Plan
from treeline.plan import Done, InFlight, Past, Wait, expected, next_step, remaining
from treeline.plan.rank import next_probe, objective_value, rises_and_falls


def grid(finals: Finals | None, *budgets: int) -> Plan:
    return Plan(kind="grid", items=tuple(item(budget) for budget in budgets), finals=finals)


def explored(rates: dict[int, float | None]) -> list[Past]:
    return [end(f"{cell(b, 64)}/explore/1", "good", rate=rate) for b, rate in rates.items()]


def drive(plan: Plan, history: list[Past], rates: dict[int, float], bad: tuple[str, ...] = ()) -> list[Item]:
    """Run what is left; the items in the order of handing out."""
    past, found = list(history), []
    while not isinstance(step := next_step(plan, past, [], "lab1"), Done):
        assert isinstance(step, Item)
        found.append(step)
        effect = "bad" if step.item_id in bad else "good"
        past.append(end(step.item_id, effect, rate=rates.get(step.key.budget)))
    return found


def named(items: list[Item]) -> list[str]:
    return [f"{found.key.budget} {found.purpose}/{found.ordinal}" for found in items]


RATES = {4: 100.0, 8: 300.0, 16: 320.0, 32: 200.0}


def test_finalists_take_turns_between_anchors_and_the_winner_is_soaked() -> None:
    plan = grid(Finals(lives=3, finalists=2, soak_s=600.0), 4, 8, 16, 32)
    items = drive(plan, explored(RATES), RATES)
    assert named(items) == [
        "4 anchor/1",
        "16 confirm/1",
        "8 confirm/1",
        "4 anchor/2",
        "8 confirm/2",
        "16 confirm/2",
        "16 confirm/3",
        "8 confirm/3",
        "4 anchor/3",
        "16 confirm/4",
    ]
    assert [found.soak_s for found in items] == [None] * 9 + [600.0]
    assert {found.lives_group for found in items[:-1]} == {"finals"}
    assert "life 2 of 3" in items[4].reason
    assert "at maxreq" in items[-1].reason


def test_the_soak_goes_to_the_best_of_the_lives_and_not_of_the_first_look() -> None:
    plan = grid(Finals(lives=2, soak_s=60.0), 4, 8, 16)
    items = drive(plan, explored(RATES), {**RATES, 16: 250.0})
    assert items[-1].soak_s == 60.0
    assert items[-1].key.budget == 8


def test_a_finalist_that_fails_is_replaced_by_the_next() -> None:
    plan = grid(Finals(lives=2, soak_s=60.0), 4, 8, 16, 32)
    items = drive(plan, explored(RATES), RATES, bad=(f"{cell(16, 64)}/confirm/1",))
    done = named(items)
    assert "16 confirm/2" not in done
    assert {"32 confirm/1", "32 confirm/2", "8 confirm/2"} <= set(done)
    assert (items[-1].key.budget, items[-1].soak_s) == (8, 60.0)


def test_a_winner_that_does_not_survive_its_soak_gives_way() -> None:
    plan = grid(Finals(lives=1, finalists=2, soak_s=60.0), 4, 8, 16)
    items = drive(plan, explored(RATES), RATES, bad=(f"{cell(16, 64)}/confirm/2",))
    soaks = [found.key.budget for found in items if found.soak_s]
    assert soaks == [16, 8]


def test_without_lives_the_best_of_the_first_look_is_soaked() -> None:
    items = drive(grid(Finals(lives=0, soak_s=60.0), 4, 8, 16), explored(RATES), RATES)
    assert named(items) == ["16 confirm/1"]
    assert items[0].soak_s == 60.0


def test_cells_without_a_figure_are_no_finalists() -> None:
    plan = grid(Finals(lives=1, soak_s=60.0), 8, 16)
    assert isinstance(next_step(plan, explored({8: None, 16: None}), [], "lab1"), Done)


def test_the_objective_decides() -> None:
    plan = grid(Finals(lives=1, finalists=1, objective="throughput@1"), 8, 16)
    history = [
        Past(
            trial_id="t",
            item_id=f"{cell(budget, 64)}/explore/1",
            cell=cell(budget, 64),
            host="lab1",
            effect="good",
            throughput=rates,
        )
        for budget, rates in {8: {"1": 50.0, "64": 10.0}, 16: {"1": 40.0, "64": 900.0}}.items()
    ]
    found = next_step(plan, history, [], "lab1")
    assert isinstance(found, Item)
    # Budget 8 is the finalist and the safest cell, so there is no anchor besides it.
    assert (found.key.budget, found.purpose) == (8, "confirm")


def test_a_round_stays_on_one_host_while_that_host_works() -> None:
    plan = grid(Finals(lives=3, finalists=2), 8, 16)
    rates = {8: 300.0, 16: 320.0}
    history = explored(rates)
    first = next_step(plan, history, [], "lab1")
    assert isinstance(first, Item)
    flight = InFlight(trial_id="f", item_id=first.item_id, cell=first.cell, host="lab1")
    second = next_step(plan, history, [flight], "lab2")
    assert isinstance(second, Item)
    assert (first.ordinal, second.ordinal) == (1, 2)
    history.append(end(first.item_id, "good", "lab1", rate=320.0))
    other = InFlight(trial_id="g", item_id=second.item_id, cell=second.cell, host="lab2")
    mine = next_step(plan, history, [other], "lab1")
    assert isinstance(mine, Item)
    assert mine.ordinal == 1
    assert mine.key != first.key


def test_a_round_whose_host_is_gone_is_taken_over() -> None:
    plan = grid(Finals(lives=1, finalists=2), 8, 16)
    history = [*explored({8: 300.0, 16: 320.0}), end(f"{cell(16, 64)}/confirm/1", "good", "lab1", rate=320.0)]
    found = next_step(plan, history, [], "lab2")
    assert isinstance(found, Item)
    assert found.item_id == f"{cell(8, 64)}/confirm/1"
    working = InFlight(trial_id="f", item_id=found.item_id, cell=found.cell, host="lab1")
    assert isinstance(next_step(plan, history, [working], "lab2"), Wait)


def test_the_search_comes_before_the_finals_and_its_cells_take_part() -> None:
    plan = frontier(budgets=(8, 16), limits=(16, 32), finals=Finals(lives=1, finalists=1), throughput=True)
    past: list[Past] = []
    order = []
    while not isinstance(step := next_step(plan, past, [], "lab1"), Done):
        assert isinstance(step, Item)
        order.append((step.key.budget, step.key.maxreq, step.purpose))
        past.append(end(step.item_id, "good", rate=float(step.key.budget)))
    assert order == [
        (8, 32, "explore"),
        (16, 32, "explore"),
        (8, 32, "anchor"),
        (16, 32, "confirm"),
        (8, 32, "anchor"),
    ]


def test_a_cell_that_worked_and_has_no_figure_is_measured_for_its_speed() -> None:
    plan = frontier(budgets=(8, 16), limits=(16, 32), throughput=True)
    history = [
        end(f"{cell(8, 32)}/explore/1", "good", rate=5.0),
        end(f"{cell(16, 32)}/explore/1", "good"),
    ]
    found = next_step(plan, history, [], "lab1")
    assert isinstance(found, Item)
    assert found.item_id == f"{cell(16, 32)}/explore/3"
    assert "throughput" in found.reason
    assert isinstance(next_step(plan, [*history, end(found.item_id, "good")], [], "lab1"), Done)


def test_what_is_still_to_be_measured_for_its_speed_is_still_to_come() -> None:
    plan = frontier(budgets=(8, 16), limits=(16, 32), throughput=True)
    history = [
        end(f"{cell(8, 32)}/explore/1", "good", rate=5.0),
        end(f"{cell(16, 32)}/explore/1", "good"),
    ]
    assert expected(plan, history).throughput == remaining(plan, history) == 1
    history.append(end(f"{cell(16, 32)}/explore/3", "good", rate=4.0))
    assert remaining(plan, history) == 0


def test_no_restart_is_spent_on_cells_that_cannot_give_the_figure_of_the_objective() -> None:
    wanted = Finals(lives=1, finalists=1, objective="throughput@64")
    plan = frontier(budgets=(8, 16), limits=(16, 32, 64), throughput=True, finals=wanted)
    assert plan.frontier is not None
    search = msgspec.structs.replace(plan.frontier, load=Load(concurrency=(1, 64)))
    plan = msgspec.structs.replace(plan, frontier=search)

    def life(item_id: str, **rates: float) -> Past:
        return msgspec.structs.replace(end(item_id, "good"), throughput=rates)

    # Budget 16 works up to 32 requests, so no life of it is measured at 64.
    history = [
        life(f"{cell(8, 64)}/explore/1", **{"1": 5.0, "64": 90.0}),
        end(f"{cell(16, 64)}/explore/1", "bad"),
        life(f"{cell(16, 32)}/explore/1", **{"1": 6.0, "32": 80.0}),
    ]
    found = next_step(plan, history, [], "lab1")
    assert isinstance(found, Item)
    assert found.purpose == "anchor"
    assert expected(plan, history).throughput == 0


@pytest.mark.parametrize(
    ("objective", "value"),
    [("throughput", 900.0), ("throughput@1", 40.0), ("latency@8", 150.0), ("throughput@2", None)],
)
def test_values_of_an_objective(objective: str, value: float | None) -> None:
    rates = {"1": 40.0, "8@512": 100.0, "8@4096": 200.0, "64": 900.0, "32": None}
    assert objective_value(rates, objective) == value


# Public measurements (Lucebox, RTX 3090 and RTX 5090): tokens/s at ascending budgets.
TABLE_A = (125.3, 128.7, 131.2, 133.9, 135.8, 133.0, 120.5, 105.1)
TABLE_B = (174.45, 176.98, 206.62, 204.03, 211.20, 203.08, 199.96, 206.19, 183.34, 174.52, 165.24, 148.12)


def search(table: tuple[float, ...]) -> tuple[int, int]:
    """Where the search ends, and how many places it measured."""
    values: list[float | None] = [None] * len(table)
    for count in range(len(table) + 1):
        place = next_probe(values)
        if place is None:
            known = [value or 0.0 for value in values]
            return known.index(max(known)), count
        assert values[place] is None
        values[place] = table[place]
    raise AssertionError("it measured a place twice")


def test_one_maximum_is_found_without_measuring_every_budget() -> None:
    place, measured = search(TABLE_A)
    assert place == TABLE_A.index(max(TABLE_A))
    assert measured < len(TABLE_A)
    for peak in range(30):
        hill = tuple(100.0 - abs(peak - place) * 3 for place in range(30))
        found, measured = search(hill)
        assert found == peak
        assert measured <= 12


def test_a_second_maximum_makes_it_measure_everything() -> None:
    assert not rises_and_falls(TABLE_B)
    place, measured = search(TABLE_B)
    assert (place, measured) == (TABLE_B.index(max(TABLE_B)), len(TABLE_B))


def test_noise_is_no_second_maximum() -> None:
    assert rises_and_falls((100.0, 99.5, 105.0, 104.0, 104.5))
    assert not rises_and_falls((100.0, 90.0, 105.0))
    assert next_probe([]) is None
    assert next_probe([1.0]) is None
