"""From variables to the search for a frontier, its stages, its limits and the baseline."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from treeline.keys import Load, Plan
from treeline.request import Outcome, RequestError, Surroundings, understand
from treeline.request.stages import FRONTIER_BUDGETS, FRONTIER_MAXREQS


def frontier(**variables: object) -> Outcome:
    return understand({"plan": "frontier", **variables})


def refused(**variables: object) -> str:
    with pytest.raises(RequestError) as caught:
        understand(variables, Surroundings(extra_vars_names=list(variables)))
    return str(caught.value)


def test_a_frontier_without_lists_searches_the_usual_grid():
    plan = frontier().plan
    assert plan.kind == "frontier"
    assert plan.items == ()
    (part,) = plan.frontier.slices
    assert tuple(column.budget for column in part.columns) == FRONTIER_BUDGETS
    assert {column.maxreqs for column in part.columns} == {FRONTIER_MAXREQS}
    assert (part.topk, part.graphs) == (8, True)
    assert plan.frontier.throughput
    assert (plan.finals.lives, plan.finals.soak_s, plan.finals.objective) == (3, 600, "throughput")


def test_given_lists_are_the_axes_and_each_combination_of_the_others_is_a_slice():
    plan = frontier(budget="32,8", maxreq="64,16", topk="8,4", graphs="both").plan
    labels = [part.label for part in plan.frontier.slices]
    assert labels == [
        "topk 4 graphs on",
        "topk 8 graphs on",
        "topk 4 graphs off",
        "topk 8 graphs off",
    ]
    columns = plan.frontier.slices[0].columns
    assert [(column.budget, column.maxreqs) for column in columns] == [(8, (16, 64)), (32, (16, 64))]


def test_what_the_engine_cannot_hold_is_left_out_for_free_and_said():
    outcome = frontier(budget="6,7,8", topk="1,2", maxreq="16,32")
    small, large = outcome.plan.frontier.slices
    assert [column.budget for column in small.columns] == [6, 7]
    assert [column.budget for column in large.columns] == [6, 7, 8]
    assert len(outcome.plan.excluded) == 2
    assert any("a tree of topk 1 and depth 7 holds at most 7 nodes" in line for line in outcome.forecast)
    assert "leaves no configuration" in refused(plan="frontier", budget=16, topk=1)


def test_a_chain_has_one_column():
    (part,) = frontier(engine_dialect="dflash-0.5.23", maxreq="16,32").plan.frontier.slices
    assert [(column.budget, column.maxreqs) for column in part.columns] == [(7, (16, 32))]


def test_the_load_is_that_of_every_cell():
    plan = frontier(concurrency="1,32", context=512, budget="8", maxreq="16,64").plan
    assert plan.frontier.load == Load(concurrency=(1, 32), context=(512,))
    assert {key.concurrency for key in plan.frontier.load.keys(16)} == {1, 16}
    outcome = frontier(concurrency="1,32", budget="8", maxreq="16,64")
    assert outcome.axes["concurrency"] == [1, 16, 32]
    assert outcome.axes["maxreq"] == [16, 64]


@settings(max_examples=25)
@given(st.permutations([8, 16, 32]), st.permutations([16, 64]), st.permutations([4, 8]))
def test_the_order_of_lists_changes_neither_plan_nor_hash(budgets, limits, topks):
    one = frontier(budget=budgets, maxreq=limits, topk=topks)
    other = frontier(budget="8,16,32", maxreq="16,64", topk="4,8")
    assert one.plan == other.plan
    assert one.plan_hash == other.plan_hash


def test_the_hash_tells_what_is_measured_and_not_what_it_may_cost():
    plain = frontier().plan_hash
    assert frontier(max_restarts=9, max_hours="1.5", use_memory="yes", ready_timeout=30).plan_hash == plain
    for changed in ({"soak": "5m"}, {"lives": 4}, {"stages": "frontier"}, {"topk": 4}, {"maxreq": "8,16"}):
        assert frontier(**changed).plan_hash != plain
    assert frontier(objective="throughput@8").plan_hash != plain
    assert frontier(baseline="auto").plan_hash != plain


def test_a_plan_survives_json():
    plan = frontier(baseline="auto", graphs="both").plan
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


def test_options_of_a_sweep_that_may_end_early():
    options = frontier(max_restarts="30", max_hours="2.5", use_memory="true").options
    assert (options.max_restarts, options.max_hours, options.use_memory) == (30, 2.5, True)


@pytest.mark.parametrize(
    ("stages", "throughput", "lives"),
    [("frontier", False, None), ("throughput,frontier", True, None), (["frontier", "confirm"], False, 3)],
)
def test_stages_can_be_switched_off(stages, throughput, lives):
    plan = frontier(stages=stages).plan
    assert plan.frontier.throughput is throughput
    assert (plan.finals.lives if plan.finals else None) == lives


def test_finalists_of_a_grid_only_where_they_are_asked_for():
    assert understand({"budget": "8,16"}).plan.finals is None
    plan = understand({"budget": "8,16", "lives": 3}).plan
    assert (plan.finals.lives, plan.finals.soak_s) == (3, None)
    soaked = understand({"budget": "8,16", "soak": "10m"}).plan
    assert (soaked.finals.lives, soaked.finals.soak_s) == (0, 600)
    assert frontier(soak=0).plan.finals.soak_s is None


@pytest.mark.parametrize(
    ("given", "seconds"), [("10m", 600), ("90", 90), (45, 45), ("1h", 3600), ("1.5m", 90), ("30S", 30)]
)
def test_a_soak_is_a_time(given, seconds):
    assert frontier(soak=given).plan.finals.soak_s == seconds


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"plan": "frontier", "soak": "ten"}, "soak: 'ten' is not a time such as 10m, 600 or 1h"),
        ({"plan": "frontier", "soak": "30h"}, "soak: '30h' is longer than 24h"),
        ({"plan": "frontier", "soak": True}, "soak: true is not a time"),
        ({"plan": "frontier", "max_hours": "-1"}, "max_hours: '-1' is not a number of hours > 0"),
        ({"plan": "frontier", "max_hours": 0}, "max_hours: 0 is not a number of hours > 0"),
        ({"plan": "frontier", "max_restarts": "0"}, "max_restarts: '0' is not a whole number >= 1"),
        ({"plan": "frontier", "stages": "confirm"}, "leaves out frontier, which the others go on from"),
        ({"plan": "frontier", "stages": "all"}, "is not one of frontier, throughput, confirm"),
        ({"budget": 8, "stages": "frontier"}, "stages: 'frontier' is given, but plan=grid has none"),
        ({"plan": "frontier", "objective": "goodput"}, "objective: 'goodput' is not an objective"),
        ({"plan": "frontier", "objective": "latency"}, "objective: 'latency' is not an objective"),
        ({"plan": "frontier", "lives": -1}, "lives: -1 is not a whole number >= 0"),
        ({"plan": "frontier", "topk": list(range(1, 200))}, "makes 14328 configurations of these lists"),
    ],
)
def test_refusals(variables, message):
    assert message in refused(**variables)


def test_the_baseline_can_take_every_load_of_the_plan():
    plan = understand({"budget": "8,16", "maxreq": "16,64", "graphs": "both", "baseline": "auto"}).plan
    baseline = plan.baseline
    assert (baseline.purpose, baseline.key.budget, baseline.key.topk, baseline.key.maxreq) == (
        "baseline",
        0,
        1,
        64,
    )
    assert baseline.key.graphs
    assert {key.concurrency for key in baseline.client_keys} == {1, 8, 16, 32, 64}
    assert understand({"budget": 8}).plan.baseline is None
    eager = understand({"budget": 8, "graphs": "off", "baseline": "auto"}).plan.baseline
    assert not eager.key.graphs
