"""From variables to plans: defaults, grids, what is left out, and errors that are told together."""

import itertools
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from treeline import dialects
from treeline.request import Outcome, RequestError, Surroundings, understand
from treeline.request.cells import tree_capacity
from treeline.request.public import role_variables

REPOSITORY = Path(__file__).resolve().parents[3]


def keys(outcome: Outcome) -> list[tuple[int, int, bool]]:
    return [(item.key.budget, item.key.maxreq, item.key.graphs) for item in outcome.plan.items]


def refused(variables: dict[str, object], **around: object) -> RequestError:
    with pytest.raises(RequestError) as caught:
        understand(variables, Surroundings(**around))
    return caught.value


def test_defaults():
    outcome = understand({"budget": "16"})
    (item,) = outcome.plan.items
    assert item.item_id == "b16-k8-m64-bs8-g1/explore/1"
    assert [client.concurrency for client in item.client_keys] == [64, 32, 8, 1]
    assert outcome.plan.kind == "grid"
    assert outcome.dialect == "field"
    assert outcome.options.to_dict() == {
        "ready_timeout": 1800,
        "fail_on_bad": False,
        "interrupt_traffic": False,
        "max_trials_per_run": 200,
        "baseline": "skip",
        "max_restarts": None,
        "max_hours": None,
        "use_memory": False,
    }


@pytest.mark.parametrize(
    ("budget", "prior", "maxreq"),
    [
        (8, 1200, 128),
        (16, 1200, 64),
        (32, 1200, 32),
        (64, 1200, 16),
        (1199, 1200, 1),
        (5000, 1200, 1),
        (7, 64, 8),
    ],
)
def test_maxreq_follows_the_rows_prior(budget, prior, maxreq):
    (item,) = understand({"budget": budget}, Surroundings(rows_prior=prior)).plan.items
    assert item.key.maxreq == maxreq


def test_default_concurrencies_stop_at_maxreq():
    (item,) = understand({"budget": 64, "maxreq": 16}).plan.items
    assert [client.concurrency for client in item.client_keys] == [16, 8, 1]


def test_asked_concurrencies_above_maxreq_are_capped_and_said():
    outcome = understand({"budget": 16, "maxreq": 16, "concurrency": "1,32,64", "context": [512, 4096]})
    (item,) = outcome.plan.items
    loads = [(client.concurrency, client.context) for client in item.client_keys]
    assert loads == [(16, 4096), (16, 512), (1, 4096), (1, 512)]
    assert outcome.notes == ("maxreq 16: concurrency 32, 64 would only queue; 16 is measured instead",)


def test_a_grid_runs_the_safest_cells_first():
    outcome = understand({"budget": "32,8", "maxreq": [128, 16], "graphs": "both"})
    assert keys(outcome) == [
        (8, 16, False),
        (8, 16, True),
        (32, 16, False),
        (32, 16, True),
        (8, 128, False),
        (8, 128, True),
        (32, 128, False),
        (32, 128, True),
    ]
    assert outcome.plan.items[-1].reason == "grid, 4224 rows, above the prior of 1200"
    assert outcome.axes["budget"] == [8, 32]
    assert outcome.axes["graphs"] == [False, True]


@given(st.permutations([8, 16, 32]), st.permutations([16, 64]), st.permutations(["on", "off"]))
def test_the_order_of_lists_changes_neither_plan_nor_hash(budgets, maxreqs, graphs):
    outcome = understand({"budget": budgets, "maxreq": maxreqs, "graphs": graphs})
    usual = understand({"budget": "8,16,32", "maxreq": "16,64", "graphs": "both"})
    assert outcome.plan.items == usual.plan.items
    assert outcome.plan_hash == usual.plan_hash


def test_options_do_not_change_the_hash_and_loads_do():
    plain = understand({"budget": 8}).plan_hash
    assert understand({"budget": 8, "ready_timeout": "30", "fail_on_bad": "yes"}).plan_hash == plain
    assert understand({"budget": 8, "concurrency": 1}).plan_hash != plain
    assert understand({"budget": 8, "topk": 4}).plan_hash != plain


AXES = st.fixed_dictionaries(
    {"budget": st.lists(st.integers(1, 40), min_size=1, max_size=3, unique=True)},
    optional={
        "topk": st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True),
        "maxreq": st.lists(st.integers(1, 300), min_size=1, max_size=2, unique=True),
        "block_size": st.lists(st.integers(2, 17), min_size=1, max_size=2, unique=True),
        "graphs": st.lists(st.booleans(), min_size=1, max_size=2, unique=True),
        "graph_max_bs": st.lists(st.none() | st.integers(1, 64), min_size=1, max_size=2, unique=True),
        "attention_backend": st.lists(st.sampled_from([None, "triton", "fa3"]), min_size=1, unique=True),
        "engine_dialect": st.sampled_from(["field", "pr29907", "dflash-0.5.23"]),
    },
)


@settings(max_examples=60)
@given(AXES)
def test_every_asked_cell_is_either_run_once_or_left_out_with_a_reason(variables):
    try:
        outcome = understand(variables)
    except RequestError as error:
        assume("leaves no configuration to run" not in str(error))
        raise
    axes = [
        variables.get("budget"),
        variables.get("topk", [8 if variables.get("engine_dialect") != "dflash-0.5.23" else 1]),
        variables.get("block_size", [8]),
        variables.get("graphs", [True]),
        variables.get("graph_max_bs", [None]),
        variables.get("attention_backend", [None]),
    ]
    asked = set(itertools.product(*axes))
    named = {"run": [item.key for item in outcome.plan.items]}
    named["out"] = [excluded.key for excluded in outcome.plan.excluded]

    def cell(key):
        fields = ("budget", "topk", "block_size", "graphs", "graph_max_bs", "attention_backend")
        return tuple(getattr(key, name) for name in fields)

    assert asked <= {cell(key) for keys in named.values() for key in keys}
    assert len(set(named["run"])) == len(named["run"])
    assert not set(named["run"]) & set(named["out"])
    assert all(excluded.reason for excluded in outcome.plan.excluded)
    rows = [item.key.rows for item in outcome.plan.items]
    assert rows == sorted(rows)


def test_a_tree_too_small_for_its_budget_is_left_out_and_said():
    outcome = understand({"budget": "6,7,8", "topk": "1,2"})
    (excluded,) = outcome.plan.excluded
    assert (excluded.key.budget, excluded.key.topk) == (8, 1)
    assert excluded.reason == "a tree of topk 1 and depth 7 holds at most 7 nodes, fewer than budget 8"
    assert any(excluded.reason in line for line in outcome.forecast)


@pytest.mark.parametrize(("topk", "depth", "nodes"), [(1, 7, 7), (2, 3, 14), (3, 2, 12), (4, 1, 4)])
def test_nodes_of_a_full_tree(topk, depth, nodes):
    assert tree_capacity(topk, depth, enough=10**6) == nodes
    assert tree_capacity(topk, depth, enough=nodes) == nodes


def test_a_dialect_without_a_tree_has_one_cell_for_all_budgets_and_topks():
    outcome = understand({"engine_dialect": "dflash-0.5.23", "budget": "8,16", "topk": "4,8", "maxreq": "32"})
    (item,) = outcome.plan.items
    assert (item.key.budget, item.key.topk, item.key.rows) == (7, 1, 32 * 8)
    assert len(outcome.plan.excluded) == 4
    assert all("the same service as budget 7 topk 1" in excluded.reason for excluded in outcome.plan.excluded)
    assert (
        "budget: dialect dflash-0.5.23 has no setting for it, so its value changes nothing" in outcome.notes
    )


def test_a_dialect_without_a_tree_needs_no_budget():
    outcome = understand({"engine_dialect": "dflash-0.5.23"})
    (item,) = outcome.plan.items
    assert (item.key.budget, item.key.topk, item.key.maxreq) == (7, 1, 128)
    assert not outcome.plan.excluded


def test_a_dialect_with_a_tree_and_no_topk_collapses_topk(tmp_path):
    text = (dialects.DIRECTORY / "field.yml").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.strip().startswith("topk:")]
    own = tmp_path / "no-topk.yml"
    own.write_text("\n".join(lines).replace("topk: true", "topk: false"), encoding="utf-8")
    outcome = understand({"budget": 16, "topk": "4,8", "engine_dialect": str(own)})
    assert [item.key.topk for item in outcome.plan.items] == [4]
    (excluded,) = outcome.plan.excluded
    assert excluded.key.topk == 8
    assert "dialect field has no setting for topk" in excluded.reason
    assert outcome.dialect == str(own)


def test_a_graph_cap_is_no_axis_without_graphs():
    outcome = understand({"budget": 16, "graphs": "off", "graph_max_bs": "16,32"})
    assert [item.key.graph_max_bs for item in outcome.plan.items] == [None]
    assert {excluded.key.graph_max_bs for excluded in outcome.plan.excluded} == {16, 32}


def test_a_static_rule_leaves_a_cell_out():
    variables = {"budget": "7,16", "attention_backend": "fa3,triton", "engine_dialect": "pr29907"}
    outcome = understand(variables)
    (excluded,) = outcome.plan.excluded
    assert (excluded.key.budget, excluded.key.attention_backend) == (16, "fa3")
    assert "dialect pr29907 refuses it" in excluded.reason


def test_duplicates_are_one_cell():
    assert len(understand({"budget": "8,8", "topk": [8, "8"]}).plan.items) == 1


def test_all_problems_are_told_together_with_value_origin_and_allowed_form():
    error = refused(
        {"budget": "abc", "graphs": "maybe", "concurrency": 0, "ready_timeout": "1m", "baseline": "old"},
        extra_vars_names=["budget", "graphs"],
        group_hosts=[],
    )
    text = str(error)
    assert text.startswith("6 problems with the variables of this run:\n")
    assert (
        "budget: 'abc' is not a whole number >= 1 (given with -e). "
        "Allowed: a number, a comma list or a YAML list, such as budget=8,16." in text
    )
    assert "graphs: 'maybe' is neither on nor off (given with -e). Allowed: on, off," in text
    assert "concurrency: 0 is not a whole number >= 1 (from the inventory or a vars file)." in text
    assert "ready_timeout: '1m' is not a whole number >= 1" in text
    assert "baseline: 'old' is not one of auto, skip" in text
    assert "inventory group 'sglang': is missing or has no hosts" in text


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({}, "budget: is not given, and a grid needs it. Allowed: -e budget=8,16, or -e points=FILE"),
        ({"budget": None}, "budget: is not given"),
        (
            {"plan": "frontier", "points": "x.csv"},
            "points: 'x.csv' is given, but plan=frontier crosses budget, topk, maxreq",
        ),
        ({"budget": 8, "plan": "all"}, "plan: 'all' is not one of grid, points, frontier"),
        ({"plan": "points"}, "points: is not given, and plan=points reads"),
        ({"budget": 8, "plan": "grid", "points": "x.csv"}, "points: 'x.csv' is given, but plan=grid crosses"),
        (
            {"budget": 8, "engine_dialect": "sglang"},
            "Known: dflash-0.5.12, dflash-0.5.23, field, pr29907; or the path",
        ),
        ({"budget": 8, "engine_dialect": "no/such.yml"}, "such.yml does not exist"),
        ({"budget": 16, "topk": 1}, "plan: 'grid' leaves no configuration to run: budget 16 topk 1"),
        ({"budget": list(range(1, 500)), "maxreq": list(range(1, 500))}, "makes 249001 configurations"),
        ({"budget": 8, "tp": 4}, "tp: is not a variable of a sweep"),
    ],
)
def test_refusals(variables, message):
    assert message in str(refused(variables))


def test_a_small_rows_prior_is_refused():
    assert "treeline_rows_prior: 0 is not" in str(refused({"budget": 8}, rows_prior=0))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("budgte", "budget"),
        ("buget", "budget"),
        ("Budget", "budget"),
        ("max_req", "maxreq"),
        ("graph-max-bs", "graph_max_bs"),
        ("concurency", "concurrency"),
        ("treeline_lease", "treeline_lease_s"),
        ("sglang_ddtree_budgt", "sglang_ddtree_budget"),
    ],
)
def test_a_name_that_nothing_declares_and_that_looks_like_one_is_refused(name, meant):
    known = role_variables(REPOSITORY / "roles")
    error = refused({"budget": 8}, extra_vars_names=[name], known_names=known)
    (problem,) = error.problems
    assert problem.text.endswith(f"Did you mean {meant}?")


@pytest.mark.parametrize(
    "name", ["budget", "config", "my_own", "ansible_user", "sglang_ddtree_tp_size", "topic_x"]
)
def test_declared_names_and_names_unlike_any_pass(name):
    around = Surroundings(extra_vars_names=[name], known_names=role_variables(REPOSITORY / "roles"))
    assert understand({"budget": 8}, around).plan.items


def test_a_declared_name_is_no_typing_error():
    assert refused({"budget": 8}, extra_vars_names=["plans"]).problems[0].suggestion == "plan"
    assert understand(
        {"budget": 8}, Surroundings(extra_vars_names=["plans"], known_names=["plans"])
    ).plan.items


def test_a_misspelt_budget_is_said_once():
    (problem,) = refused({}, extra_vars_names=["budgte"]).problems
    assert problem.variable == "budgte"


def test_words_that_are_no_assignment_are_pointed_out():
    error = refused({"budget": "8,"}, stray_words="16", extra_vars_names=["budget"])
    assert "-e: '16' is not NAME=VALUE, and a list given so must have no blanks" in str(error)
    assert "budget: '8,' has an empty entry" in str(error)
