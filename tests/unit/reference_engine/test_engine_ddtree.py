"""The draft tree against brute force and its known properties."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from treeline_reference_engine.ddtree import Marginal, build_tree, verify

LENGTH = 4


def _marginals(weights: list[list[int]]) -> list[Marginal]:
    out: list[Marginal] = []
    for position in weights:
        total = sum(position) + 1
        ranked = sorted(enumerate(position), key=lambda item: (-item[1], item[0]))
        out.append([(token, math.log(weight / total)) for token, weight in ranked])
    return out


weight_lists = st.lists(
    st.lists(st.integers(1, 40), min_size=1, max_size=4), min_size=1, max_size=LENGTH
).map(_marginals)


def _all_scores(marginals: list[Marginal], topk: int) -> list[float]:
    scores = []
    for depth in range(1, len(marginals) + 1):
        for path in itertools.product(*(position[:topk] for position in marginals[:depth])):
            scores.append(sum(log_q for _, log_q in path))
    return sorted(scores, reverse=True)


@given(weight_lists, st.integers(1, 40), st.integers(1, 4))
def test_best_prefixes(marginals: list[Marginal], budget: int, topk: int) -> None:
    tree = build_tree(marginals, budget, topk)
    expected = _all_scores(marginals, topk)[:budget]
    assert tree.size == len(expected)
    assert sorted(tree.scores[1:], reverse=True) == pytest.approx(expected)


@given(weight_lists, st.integers(1, 40), st.integers(1, 4))
def test_shape(marginals: list[Marginal], budget: int, topk: int) -> None:
    tree = build_tree(marginals, budget, topk)
    assert tree.size <= budget
    for node in range(1, tree.size + 1):
        parent = tree.parents[node]
        assert parent < node
        assert tree.depths[node] == tree.depths[parent] + 1 <= len(marginals)
        assert tree.children[parent][tree.tokens[node]] == node
        position = marginals[tree.depths[node] - 1]
        assert tree.tokens[node] in [token for token, _ in position[:topk]]
    # the order of insertion is the order of scores, and the nodes are different prefixes
    assert all(a >= b - 1e-12 for a, b in itertools.pairwise(tree.scores[1:]))
    assert sum(len(children) for children in tree.children) == tree.size


@given(weight_lists, st.integers(1, 4))
def test_expected_acceptance_grows_ever_more_slowly(marginals: list[Marginal], topk: int) -> None:
    values = [build_tree(marginals, budget, topk).expected_acceptance() for budget in range(30)]
    gains = [b - a for a, b in itertools.pairwise(values)]
    assert all(gain >= -1e-12 for gain in gains)
    assert all(later <= earlier + 1e-9 for earlier, later in itertools.pairwise(gains))


@given(weight_lists, st.integers(0, 20), st.data())
def test_verify_walks_the_longest_accepted_path(
    marginals: list[Marginal], budget: int, data: st.DataObject
) -> None:
    tree = build_tree(marginals, budget, 4)
    target = data.draw(st.lists(st.integers(0, 4), min_size=LENGTH + 1, max_size=LENGTH + 1))
    result = verify(tree, lambda accepted: target[len(accepted)])
    prefixes: set[tuple[int, ...]] = {()}
    paths: list[tuple[int, ...]] = [()]
    for node in range(1, tree.size + 1):
        paths.append((*paths[tree.parents[node]], tree.tokens[node]))
        prefixes.add(paths[node])
    depth = max(n for n in range(LENGTH + 1) if tuple(target[:n]) in prefixes)
    assert result == target[: depth + 1]


def test_no_budget_and_no_candidates() -> None:
    assert build_tree([[(5, -0.1)]], 0, 4).size == 0
    assert build_tree([], 8, 4).size == 0
    assert build_tree([[], [(1, -0.5)]], 8, 4).size == 0
