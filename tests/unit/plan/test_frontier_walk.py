"""The search for the frontier, one rule at a time."""

from __future__ import annotations

from plan_builders import cell, drive, end, flying, frontier, step
from treeline.keys import Item, Known, Plan
from treeline.plan import Done, Past, cells, next_step, open_items, remaining
from treeline.plan.evidence import Evidence
from treeline.plan.search import Search
from treeline.plan.sheet import Sheet


def sheet_of(plan: Plan, history: list[Past], known: Known | None = None) -> Sheet:
    assert plan.frontier is not None
    return Search(plan.frontier, Evidence.of(history), known or Known()).sheets[0]


def ids(history: list[Past]) -> list[str]:
    return [past.item_id for past in history]


def test_the_walk_begins_at_the_smallest_budget_and_the_largest_limit_and_follows_the_border() -> None:
    plan = frontier()
    bad = {(8, 128), (16, 128), (16, 64), (32, 128), (32, 64), (32, 32)}
    walked = [past.cell for past in drive(plan, bad)]
    assert walked == [cell(8, 128), cell(8, 64), cell(16, 64), cell(16, 32), cell(32, 32), cell(32, 16)]
    assert "smallest budget, largest limit" in step(plan, []).reason


def test_every_step_says_why() -> None:
    plan = frontier()
    failed = [end(f"{cell(8, 128)}/explore/1", "bad")]
    assert "budget 8 does not work at maxreq 128" in step(plan, failed).reason
    worked = [*failed, end(f"{cell(8, 64)}/explore/1", "good")]
    assert "a smaller budget does not rule out (it fails from 128 on)" in step(plan, worked).reason


def test_what_follows_is_implied_and_never_called_measured() -> None:
    plan = frontier()
    bad = {(8, 128), (16, 128), (16, 64), (32, 128), (32, 64), (32, 32)}
    found = cells(plan, drive(plan, bad))
    assert found[cell(8, 64)].state == "good"
    assert found[cell(8, 32)].state == "implied_good"
    assert found[cell(8, 32)].reason == "budget 8 works at maxreq 64"
    assert found[cell(16, 128)].state == "implied_bad"
    assert found[cell(16, 128)].reason == "budget 16 fails at maxreq 64"
    assert found[cell(32, 128)].reason == "budget 32 fails at maxreq 32"
    assert len(found) == 12
    assert {state.state for state in found.values()} <= {"good", "bad", "implied_good", "implied_bad"}


def test_a_failure_below_closes_larger_budgets_only_as_a_prior() -> None:
    history = [end(f"{cell(8, 128)}/explore/1", "bad"), end(f"{cell(8, 64)}/explore/1", "good")]
    column = sheet_of(frontier(), history).columns[1]
    assert column.implied == {128: "bad"}
    assert column.ceiling == 128
    assert column.open == (16, 32, 64)


def test_a_column_that_is_bad_throughout_closes_nothing_to_its_right() -> None:
    plan = frontier()
    dead = {(8, limit) for limit in (16, 32, 64, 128)}
    past = drive(plan, {*dead, (32, 128)})
    assert [entry.cell for entry in past[4:]] == [cell(16, 16), cell(16, 128), cell(32, 128), cell(32, 64)]
    found = cells(plan, past)
    assert found[cell(16, 64)].state == "implied_good"
    assert found[cell(32, 64)].state == "good"
    reason = step(plan, past[:4]).reason
    assert "budget 8 fails at every limit, which says nothing about larger budgets" in reason


def test_dead_columns_to_the_right_cost_one_step_each() -> None:
    bad = {(budget, limit) for budget in (16, 32) for limit in (16, 32, 64, 128)}
    assert [past.cell for past in drive(frontier(), bad)] == [
        cell(8, 128),
        cell(16, 128),
        cell(16, 64),
        cell(16, 32),
        cell(16, 16),
        cell(32, 16),
    ]


def test_a_failure_without_a_cause_is_repeated_before_the_walk_goes_on() -> None:
    plan = frontier()
    first = f"{cell(8, 128)}/explore/1"
    once = [end(first, "repeat", trial="t1")]
    retry = step(plan, once)
    assert retry.item_id == f"{cell(8, 128)}/retry/2"
    assert "t1" in retry.reason
    again = [*once, end(retry.item_id, "repeat")]
    assert step(plan, again).item_id == f"{cell(8, 64)}/explore/1"
    assert cells(plan, again)[cell(8, 128)].reason == "failed twice, cause unknown"
    worked = [*once, end(retry.item_id, "good")]
    assert cells(plan, worked)[cell(8, 128)].state == "mixed"


def test_a_mixed_cell_and_a_transient_failure_close_nothing() -> None:
    plan = frontier()
    for first, second in (("repeat", "good"), ("repeat_transient", "repeat_transient")):
        history = [
            end(f"{cell(8, 128)}/explore/1", first),
            end(f"{cell(8, 128)}/retry/2", second),
            end(f"{cell(8, 64)}/explore/1", "good"),
        ]
        assert step(plan, history).item_id == f"{cell(16, 128)}/explore/1"


def test_a_cell_whose_trials_decided_nothing_is_unknown_and_the_walk_goes_on() -> None:
    plan = frontier()
    item_id = f"{cell(8, 128)}/explore/1"
    history = [end(item_id, "void", f"lab{number}") for number in range(4)]
    assert step(plan, history[:3], host="lab9").item_id == item_id
    assert step(plan, history, host="lab9").item_id == f"{cell(8, 64)}/explore/1"
    assert cells(plan, history)[cell(8, 128)].state == "unknown"


def test_an_item_that_may_not_be_run_again_ends_its_cell_whatever_became_of_the_others() -> None:
    plan = frontier(budgets=(8,), limits=(16, 32))
    explored, audited = f"{cell(8, 32)}/explore/1", f"{cell(8, 32)}/audit/1"
    voids = [end(explored, "void", f"lab{number}") for number in range(4)]
    # It was given up as an audit, too; the walk does not ask for what it has asked for in vain.
    history = [end(audited, None), *voids]
    assert cells(plan, history)[cell(8, 32)].state == "unknown"
    assert step(plan, history, host="lab9").item_id == f"{cell(8, 16)}/explore/1"


def test_an_audit_that_said_nothing_is_not_counted_as_still_to_come() -> None:
    plan = frontier(budgets=(8,), limits=(16, 32), audit_share=0.1)
    audited = f"{cell(8, 16)}/audit/1"
    # The cell was claimed ahead of the walk and given up, then drawn as an audit and lost four times.
    history = [end(f"{cell(8, 16)}/explore/1", None), end(f"{cell(8, 32)}/explore/1", "good")]
    assert step(plan, history).item_id == audited
    history += [end(audited, "void", f"lab{number}") for number in range(4)]
    found = next_step(plan, history, [], "lab9")
    assert isinstance(found, Done)
    assert found.complete
    assert remaining(plan, history) == 0
    assert open_items(plan, history) == []


def test_what_says_nothing_about_the_cell_is_tried_again_by_the_next_run_only() -> None:
    plan = frontier()
    item_id = f"{cell(8, 128)}/explore/1"
    assert step(plan, [end(item_id, "dialect")]).item_id == f"{cell(8, 64)}/explore/1"
    assert step(plan, [end(item_id, "dialect", this_run=False)]).item_id == item_id


def test_corners_of_the_bad_cells_are_repeated_once() -> None:
    plan = frontier(confirm=True)
    bad = {(8, 128), (16, 128), (16, 64), (32, 128), (32, 64), (32, 32)}
    past = drive(plan, bad)
    confirmed = [entry.cell for entry in past if "/confirm/" in entry.item_id]
    assert sorted(confirmed) == sorted([cell(8, 128), cell(16, 64), cell(32, 32)])
    assert len(set(ids(past))) == len(past)


def test_a_cell_that_failed_twice_already_is_not_confirmed_again() -> None:
    plan = frontier(confirm=True, budgets=(8,), limits=(16, 32))
    history = [
        end(f"{cell(8, 32)}/explore/1", "repeat"),
        end(f"{cell(8, 32)}/retry/2", "repeat"),
        end(f"{cell(8, 16)}/explore/1", "good"),
    ]
    assert isinstance(next_step(plan, history, [], "lab1"), Done)


def test_a_corner_that_works_when_it_is_repeated_is_mixed_and_no_longer_closes_its_neighbours() -> None:
    plan = frontier(confirm=True)
    history = drive(plan, {(8, 128), (16, 128), (32, 128)})
    assert ids(history)[-1] == f"{cell(8, 128)}/confirm/1"
    history[-1] = end(history[-1].item_id, "good")
    assert cells(plan, history)[cell(8, 128)].state == "mixed"
    assert step(plan, history).item_id == f"{cell(16, 128)}/explore/1"


def test_both_implied_sides_are_audited_at_least_once_and_a_tenth_of_them() -> None:
    budgets, limits = tuple(range(1, 11)), tuple(range(1, 11))
    plan = frontier(budgets=budgets, limits=limits, audit_share=0.1)
    bad = {(budget, limit) for budget in budgets for limit in limits if budget + limit > 10}
    audits = [past for past in drive(plan, bad) if "/audit/" in past.item_id]
    walked = drive(frontier(budgets=budgets, limits=limits), bad)
    good_side = 45 - sum(past.effect == "good" for past in walked)
    bad_side = 55 - sum(past.effect == "bad" for past in walked)
    assert [past.effect for past in audits].count("good") == -(-good_side // 10)
    assert [past.effect for past in audits].count("bad") == -(-bad_side // 10)
    small = frontier(audit_share=0.1)
    effects = [past.effect for past in drive(small, {(32, 128), (16, 128)}) if "/audit/" in past.item_id]
    assert sorted(effects) == ["bad", "good"] or sorted(effects) == ["good"]


def test_audits_are_drawn_by_lot_and_the_draw_can_be_replayed() -> None:
    def drawn(salt: str) -> list[str]:
        plan = frontier(budgets=tuple(range(1, 9)), limits=tuple(range(1, 9)), audit_share=0.1, salt=salt)
        bad = {(budget, limit) for budget in range(1, 9) for limit in range(1, 9) if budget + limit > 8}
        return [past.cell for past in drive(plan, bad) if "/audit/" in past.item_id]

    assert drawn("a") == drawn("a")
    assert len({tuple(drawn(salt)) for salt in "abcde"}) > 1


def contradicted() -> tuple[Plan, list[Past], tuple[int, int]]:
    """A search whose first audit of the good side met a hole."""
    plan = frontier(audit_share=0.1)
    probe = drive(plan, set())
    audit = next(past for past in probe if "/audit/" in past.item_id)
    budget, limit = (int(part[1:]) for part in (audit.cell.split("-")[0], audit.cell.split("-")[2]))
    history = [end(past.item_id, "bad" if past is audit else "good") for past in probe]
    return plan, history[: probe.index(audit) + 1], (budget, limit)


def test_a_contradiction_is_reported_and_its_whole_column_is_measured() -> None:
    plan, history, (budget, limit) = contradicted()
    (found,) = sheet_of(plan, history).contradictions
    assert (found.budget, found.maxreq, found.implied, found.seen, found.by_audit) == (
        budget,
        limit,
        "good",
        "bad",
        True,
    )
    past = drive(plan, {(budget, limit)}, history)
    measured = {entry.cell for entry in past}
    assert {cell(budget, other) for other in (16, 32, 64, 128)} <= measured
    assert all(entry.effect is not None for entry in past)
    followed = [entry.item_id for entry in past if entry.item_id.endswith("/explore/2")]
    assert len(followed) == 2
    reason = step(plan, history).reason
    assert f"maxreq {limit} of budget {budget} was seen bad by an audit" in reason
    # What followed is measured now and contradicts nothing; the finding stays.
    assert sheet_of(plan, past).contradictions == (found,)
    states = cells(plan, past)
    assert states[cell(budget, limit)].state == "bad"
    assert not any(states[cell(budget, other)].state.startswith("implied") for other in (16, 32, 64, 128))


def test_a_hole_says_nothing_about_larger_budgets() -> None:
    plan, history, (budget, limit) = contradicted()
    past = drive(plan, {(budget, limit)}, history)
    for column in sheet_of(plan, past).columns:
        if column.budget > budget:
            assert column.boundary > 128
            assert not column.open


def test_a_crash_that_the_memory_knows_is_skipped_and_closes_its_column() -> None:
    plan = frontier()
    known = Known(bad={cell(8, 128): "crash in graph_capture"})
    first = step(plan, [], known=known)
    assert first.item_id == f"{cell(8, 64)}/explore/1"
    found = cells(plan, [end(first.item_id, "good")], known)
    assert (found[cell(8, 128)].state, found[cell(8, 128)].reason) == ("known_bad", "crash in graph_capture")
    assert found[cell(16, 128)].state == "implied_bad"


def test_what_was_measured_outranks_the_memory() -> None:
    plan = frontier()
    known = Known(bad={cell(8, 128): "crash"})
    assert cells(plan, [end(f"{cell(8, 128)}/explore/1", "good")], known)[cell(8, 128)].state == "good"


def test_a_list_skips_known_crashes_too() -> None:
    from plan_builders import item, plan

    grid = plan(8, 16)
    known = Known(bad={item(8).cell: "crash"})
    assert step(grid, [], known=known).item_id == item(16).item_id
    assert cells(grid, [], known)[item(8).cell].state == "known_bad"
    assert isinstance(next_step(grid, [end(item(16).item_id, "good")], [], "lab1", known=known), Done)


def walk_of(plan: Plan, topk: int, borders: dict[int, int]) -> list[Past]:
    """Drive a plan with several slices that all have these borders: budget -> lowest bad limit."""
    past: list[Past] = []
    while not isinstance(found := next_step(plan, past, [], "lab1"), Done):
        assert isinstance(found, Item)
        bad = found.key.maxreq >= borders[found.key.budget]
        past.append(end(found.item_id, "bad" if bad else "good"))
    return [entry for entry in past if f"-k{topk}-" in entry.cell]


def test_the_border_of_the_slice_before_is_the_first_guess_for_the_next_topk() -> None:
    limits = (8, 16, 32, 64, 96, 128, 192, 256)
    plan = frontier(budgets=(8, 16, 32), limits=limits, topks=(4, 8))
    borders = {8: 64, 16: 64, 32: 16}
    first, second = walk_of(plan, 4, borders), walk_of(plan, 8, borders)
    assert len(first) == 3 + 8 - 1
    assert [past.cell for past in second] == [
        cell(8, 64),
        cell(8, 32),
        cell(16, 32),
        cell(32, 16),
        cell(32, 8),
    ]


def test_a_first_guess_that_is_wrong_is_given_up() -> None:
    limits = tuple(range(1, 10))
    plan = frontier(budgets=tuple(range(1, 9)), limits=limits, topks=(4, 8))
    past: list[Past] = []
    while not isinstance(found := next_step(plan, past, [], "lab1"), Done):
        assert isinstance(found, Item)
        bad = found.key.topk == 4 and found.key.maxreq > 1
        past.append(end(found.item_id, "bad" if bad else "good"))
    # Everything works in the second slice: nothing is closed, and the walk still finds out soon.
    second = [entry for entry in past if "-k8-" in entry.cell]
    assert len(second) <= 8 + 9 - 1 + 4
    assert not any(entry.effect == "bad" for entry in second)


def test_the_baseline_comes_first_unless_one_is_stored() -> None:
    base = Item.of(
        frontier().frontier.slices[0].key(8, 16),  # type: ignore[union-attr]
        [],
        reason="the reference",
        purpose="baseline",
    )
    plan = frontier(baseline=base)
    assert step(plan, []).item_id == base.item_id
    assert step(plan, [], known=Known(baseline="s/t")).purpose == "explore"
    assert step(plan, [], in_flight=[flying(base)]).purpose == "explore"
    assert step(plan, [end(base.item_id, "bad")]).purpose == "explore"
    assert step(plan, [end(base.item_id, "repeat")]).purpose == "retry"
