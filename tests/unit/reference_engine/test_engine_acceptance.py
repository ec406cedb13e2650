"""The acceptance table, and the optimality of the trees by exhaustive search."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduler_run import Run
from treeline_reference_engine import acceptance
from treeline_reference_engine.ddtree import Marginal, build_tree
from treeline_reference_engine.model import NgramModel

_weights = st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=2), min_size=1, max_size=3)


def _marginals(weights: list[list[int]]) -> list[Marginal]:
    return [
        sorted(((token, math.log(w / (sum(row) + 1))) for token, w in enumerate(row)), key=lambda x: -x[1])
        for row in weights
    ]


def _best_of_all_trees(marginals: list[Marginal], budget: int) -> float:
    """Largest expected acceptance over every tree of ``budget`` nodes, by trying them all."""
    score: dict[tuple[int, ...], float] = {}
    for depth in range(1, len(marginals) + 1):
        for path in itertools.product(*(range(len(position)) for position in marginals[:depth])):
            score[path] = math.exp(sum(marginals[at][rank][1] for at, rank in enumerate(path)))
    best = 0.0
    for nodes in itertools.combinations(score, min(budget, len(score))):
        chosen = set(nodes)
        if all(len(node) == 1 or node[:-1] in chosen for node in nodes):
            best = max(best, sum(score[node] for node in nodes))
    return best


@settings(max_examples=60, deadline=None)
@given(_weights, st.integers(1, 6))
def test_no_tree_of_that_size_accepts_more(weights: list[list[int]], budget: int) -> None:
    marginals = _marginals(weights)
    tree = build_tree(marginals, budget, 2)
    assert tree.expected_acceptance() == pytest.approx(_best_of_all_trees(marginals, budget))


def test_the_table_is_what_the_engine_does(model: NgramModel) -> None:
    texts = acceptance.Texts(model, 6, 48, 1)
    point = acceptance.measure(model, texts, 8, 8, 4)
    for prompt, tokens, calls in zip(texts.prompts, point.tokens, point.calls, strict=True):
        (answer,) = Run(model, None).ask([model.tokenizer.decode(prompt)], 48)
        assert answer.last is not None
        assert (tokens, calls) == (len(answer.ids), answer.last.verify_calls)


def test_one_command_prints_and_judges(model_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = [
        "--model-path",
        str(model_dir),
        "--budgets",
        "2,7,16",
        "--topk",
        "1,4",
        "--prompts",
        "24",
        "--tokens",
        "48",
    ]
    assert acceptance.main(line) == 0
    out = capsys.readouterr().out
    assert out.count("holds:") == 3
    assert "topk 1 is flat from budget 7 on" in out


def test_findings_can_fail() -> None:
    def point(budget: int, topk: int, length: float) -> acceptance.Point:
        calls = np.full(30, 10.0)
        noise = np.linspace(-1.0, 1.0, 30)
        return acceptance.Point(budget, topk, calls * length + noise, calls)

    good = {(7, 1): 4.0, (16, 1): 4.0, (7, 4): 4.1, (16, 4): 5.0}
    bootstrap = acceptance.Bootstrap(30, 1)

    def holds(values: dict[tuple[int, int], float]) -> list[bool]:
        points = {key: point(*key, value) for key, value in values.items()}
        return [ok for ok, _ in acceptance.findings(points, bootstrap, 7)]

    assert holds(good) == [True, True, True]
    assert holds({**good, (16, 1): 4.2}) == [False, True, True]
    assert holds({**good, (16, 4): 3.5}) == [True, False, False]
