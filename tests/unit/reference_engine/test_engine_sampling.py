"""Sampled decoding with a tree: the distribution of plain sampling, token for token with the same seed."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2_contingency, chisquare
from treeline_reference_engine.batch_engine import BatchEngine
from treeline_reference_engine.drafter import Drafter
from treeline_reference_engine.messages import Generate, SamplingParams
from treeline_reference_engine.model import NgramModel
from treeline_reference_engine.requests import Request
from treeline_reference_engine.tokenizer import Tokenizer

RUNS = 3000
CONTEXT = [258, 257, 259]


@pytest.fixture(scope="module")
def small() -> NgramModel:
    """A model over four tokens whose text is a random walk: every context leaves several ways on."""
    rng = random.Random(5)
    text = [257]
    for _ in range(20_000):
        text.append(rng.choices([257, 258, 259, 260], weights=[4, 3, 2, 1 + text[-1] - 257])[0])
    return NgramModel(Tokenizer(["a", "b", "c", "d"]), np.array(text, dtype=np.uint16), {})


def _answers(
    model: NgramModel, drafter: Drafter | None, seeds: range, temperature: float
) -> Counter[tuple[int, ...]]:
    engine = BatchEngine(model, drafter)
    out: Counter[tuple[int, ...]] = Counter()
    for seed in seeds:
        params = SamplingParams(temperature, 3, True, (), seed)
        request = Request(Generate("r", CONTEXT, params), model.tokenizer, 4, 0)
        request.extend(engine.first_token(request))
        while request.finish is None:
            request.extend(engine.step(request))
        out[tuple(request.shown)] += 1
    return out


@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.6])
def test_tree_and_plain_sampling_have_one_distribution(small: NgramModel, temperature: float) -> None:
    plain = _answers(small, None, range(RUNS), temperature)
    drafted = _answers(small, Drafter(small, 4, 6, 3), range(RUNS, 2 * RUNS), temperature)
    common = [answer for answer in {*plain, *drafted} if plain[answer] + drafted[answer] >= 20]
    assert len(common) > 8
    table = [[counts[answer] for answer in common] for counts in (plain, drafted)]
    assert chi2_contingency(table).pvalue > 0.01
    wrong = _answers(small, None, range(RUNS, 2 * RUNS), 0.4 * temperature)  # it can tell another one
    table[1] = [wrong[answer] for answer in common]
    assert chi2_contingency(table).pvalue < 0.001


def test_the_first_token_is_drawn_from_the_models_distribution(small: NgramModel) -> None:
    found = small.distribution(CONTEXT)
    total = sum(found.values())
    first = Counter(
        answer[0] for answer in _answers(small, Drafter(small, 4, 6, 3), range(RUNS), 1.0).elements()
    )
    tokens = sorted(found)
    expected = [RUNS * found[token] / total for token in tokens]
    assert chisquare([first[token] for token in tokens], expected).pvalue > 0.01


def test_the_seed_decides_and_not_the_tree(small: NgramModel) -> None:
    for drafter in (Drafter(small, 4, 6, 3), Drafter(small, 8, 12, 2)):
        assert _answers(small, drafter, range(50), 1.0) == _answers(small, None, range(50), 1.0)
