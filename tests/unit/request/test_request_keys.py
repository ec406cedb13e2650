"""Restart keys, items and plans: names, arithmetic, JSON and the plan hash."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from treeline.keys import ClientKey, Excluded, Item, Plan, RestartKey, busiest_first

KEYS = st.builds(
    RestartKey,
    budget=st.integers(1, 4096),
    topk=st.integers(1, 64),
    maxreq=st.integers(1, 4096),
    block_size=st.integers(2, 64),
    graphs=st.booleans(),
    graph_max_bs=st.none() | st.integers(1, 512),
    attention_backend=st.none() | st.sampled_from(["triton", "fa3", "trtllm_mha"]),
)


def key(**changes: object) -> RestartKey:
    fields = {"budget": 16, "topk": 8, "maxreq": 64, "block_size": 8, "graphs": True} | changes
    return RestartKey.from_dict(fields)


def plan(*items: Item) -> Plan:
    return Plan(kind="grid", items=items)


@pytest.mark.parametrize(
    ("changes", "rows"),
    [
        ({}, 1088),
        ({"budget": 8, "maxreq": 128}, 1152),
        ({"graph_max_bs": 16}, 272),
        ({"graph_max_bs": 512}, 1088),
    ],
)
def test_rows_are_the_captured_batch_times_the_verify_width(changes, rows):
    assert key(**changes).rows == rows
    assert key(**changes).width == key(**changes).budget + 1


def test_names_of_a_key():
    assert key().slug == "b16-k8-m64-bs8-g1"
    assert key().label == "budget 16 topk 8 maxreq 64 graphs on"
    capped = key(graphs=False, graph_max_bs=32, attention_backend="triton", block_size=16)
    assert capped.slug == "b16-k8-m64-bs16-g0-gm32-ab_triton"
    assert capped.label == "budget 16 topk 8 maxreq 64 block size 16 graphs off graph cap 32 attention triton"


def test_canonical_order_of_the_fields():
    order = ["budget", "topk", "maxreq", "block_size", "graphs", "graph_max_bs", "attention_backend"]
    assert list(key().to_dict()) == order


@given(KEYS, KEYS)
def test_slugs_tell_keys_apart(one, other):
    assert (one.slug == other.slug) == (one == other)


@given(KEYS, st.lists(st.integers(1, 256), min_size=1, max_size=5))
def test_a_plan_survives_json(one, concurrencies):
    item = Item.of(one, [ClientKey(concurrency=n) for n in concurrencies], reason="grid")
    whole = Plan(kind="points", items=(item,), excluded=(Excluded(key=one, reason="for free"),))
    assert Plan.from_dict(json.loads(json.dumps(whole.to_dict()))) == whole


@pytest.mark.parametrize(
    "changes",
    [
        {"budget": -1},
        {"budget": "16"},
        {"block_size": 1},
        {"graphs": 1},
        {"attention_backend": "a b"},
        {"attention_backend": "triton\n"},
        {"attention_backend": "../x"},
        {"tp": 8},
    ],
)
def test_a_malformed_key_is_refused(changes):
    with pytest.raises(msgspec.ValidationError):
        key(**changes)


def test_client_keys_are_distinct_and_the_busiest_comes_first():
    keys = [ClientKey(concurrency=n, context=c) for n, c in [(1, None), (8, 512), (8, 4096), (1, None)]]
    assert [(k.concurrency, k.context) for k in busiest_first(keys)] == [(8, 4096), (8, 512), (1, None)]


def test_the_same_cell_again_has_its_own_id():
    first = Item.of(key(), [ClientKey(concurrency=8)], reason="grid")
    again = first.again("retry", 2, "cause unknown")
    assert first.item_id == "b16-k8-m64-bs8-g1/explore/1"
    assert again.item_id == "b16-k8-m64-bs8-g1/retry/2"
    assert (again.cell, again.key, again.client_keys) == (first.cell, first.key, first.client_keys)


def test_the_hash_says_what_is_measured_and_not_in_which_order_or_words():
    load = [ClientKey(concurrency=1), ClientKey(concurrency=8)]
    one, two = Item.of(key(), load, reason="a"), Item.of(key(budget=8), load, reason="b")
    digest = plan(one, two).digest("field")
    assert len(digest) == 8
    assert int(digest, 16) >= 0
    assert plan(two, Item.of(key(), reversed(load), reason="other")).digest("field") == digest
    assert plan(one).digest("field") != digest
    assert plan(one, two).digest("pr29907") != digest
    assert Plan(kind="points", items=(one, two)).digest("field") != digest
    assert plan(one, Item.of(key(budget=8), load[:1], reason="b")).digest("field") != digest


def test_the_hash_stays_the_same_between_releases():
    """A new digest for an old plan would keep an unfinished sweep from being resumed."""
    assert plan(Item.of(key(), [ClientKey(concurrency=1)], reason="x")).digest("field") == "266cfc50"
