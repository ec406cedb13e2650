"""The model, the drafter, and the identity of tree decoding with plain decoding."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from treeline_reference_engine import train
from treeline_reference_engine.batch_engine import BatchEngine
from treeline_reference_engine.chat import render_chat
from treeline_reference_engine.drafter import Drafter
from treeline_reference_engine.messages import Generate, SamplingParams
from treeline_reference_engine.model import ORDERS, NgramModel
from treeline_reference_engine.requests import Request

CANARIES = yaml.safe_load(train.CANARIES.read_text())
TEXTS = [path.read_text() for path in sorted(train.PROMPTS.glob("*.txt"))]
PARAMS = SamplingParams(0.0, 60, True)


def _run(
    model: NgramModel, drafter: Drafter | None, prompt: str, params: SamplingParams = PARAMS
) -> tuple[str, Request]:
    engine = BatchEngine(model, drafter)
    request = Request(Generate("r", model.tokenizer.encode(prompt), params), model.tokenizer, 8, 1)
    request.extend(engine.first_token(request))
    text = request.progress().text
    while request.finish is None:
        request.extend(engine.step(request))
        text += request.progress().text
    return text, request


def _window(number: int) -> str:
    rng = random.Random(number)
    text = rng.choice(TEXTS)
    start = rng.randrange(len(text) - 200)
    return text[start : start + 200]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(1, 8), st.integers(2, 8))
def test_greedy_output_does_not_depend_on_the_tree(
    model: NgramModel, window: int, budget: int, topk: int, block_size: int
) -> None:
    prompt = _window(window)
    plain, _ = _run(model, None, prompt)
    drafted, request = _run(model, Drafter(model, block_size, budget, topk), prompt)
    assert drafted == plain
    assert request.verify_calls >= 59 / block_size
    assert sum(request.accepted) == request.verify_calls


def test_greedy_is_the_best_of_the_distribution(model: NgramModel) -> None:
    for number in range(40):
        context = model.tokenizer.encode(_window(number))
        full = model.distribution(context)
        assert model.greedy(context) == min(full.items(), key=lambda item: (-item[1], item[0]))[0]
        assert 0 < sum(full.values()) <= 1 + 1e-9


def test_places_are_where_the_context_occurred(model: NgramModel) -> None:
    tokens = model.index.tokens
    for order in ORDERS:
        at = 5000
        context = tokens[at - order : at].tolist()
        value = model.index.hashes(context)[order]
        places = model.index.places(order, value, limit=10**9)
        assert places is not None
        assert at in places
        for place in places[:50]:
            assert tokens[place - order : place].tolist() == context
        windows = np.lib.stride_tricks.sliding_window_view(tokens[:-1], order)
        assert len(places) == int((windows == np.array(context, dtype=np.uint16)).all(axis=1).sum())
    assert model.index.places(3, 12345) is None


def test_acceptance_is_in_the_useful_range_and_grows_with_the_budget(model: NgramModel) -> None:
    def acceptance(budget: int, topk: int) -> float:
        drafter = Drafter(model, 8, budget, topk)
        runs = [_run(model, drafter, _window(number))[1] for number in range(40)]
        calls = sum(run.verify_calls for run in runs)
        return sum(run.completion_tokens for run in runs) / calls

    small, large = acceptance(8, 4), acceptance(16, 8)
    assert 3.0 < small < 6.0
    assert large >= small


def test_load_prompts_continue_as_text(model: NgramModel) -> None:
    for number in range(30):
        text, request = _run(model, None, _window(number), SamplingParams(0.0, 128, True))
        ids = request.context[request.prompt_tokens :]
        assert max(ids.count(token) for token in set(ids)) < len(ids) / 2, text
        assert len(set(ids)) > 12, text


@pytest.mark.parametrize("canary", CANARIES, ids=lambda canary: canary["id"])
def test_canaries_are_answered(model: NgramModel, canary: dict[str, str]) -> None:
    params = SamplingParams(0.0, int(canary["max_tokens"]), False)
    for prompt in (render_chat([{"role": "user", "content": canary["prompt"]}]), canary["prompt"]):
        for drafter in (None, Drafter(model, 8, 16, 8)):
            text, request = _run(model, drafter, prompt, params)
            assert re.search(canary["expect"], text), text
            assert request.finish == {"type": "stop", "matched": 0}


def test_canary_kinds() -> None:
    kinds = [canary["kind"] for canary in CANARIES]
    assert kinds.count("code") >= 5
    assert len(kinds) - kinds.count("code") >= 4


def test_enough_distinct_prompts() -> None:
    windows = {text[start : start + 200] for text in TEXTS for start in range(0, len(text) - 200, 200)}
    assert len(windows) >= 300


def test_prompts_are_what_their_program_writes(tmp_path: Path) -> None:
    program = train.ANSWERS.parent / "make_prompts.py"
    subprocess.run([sys.executable, str(program), str(tmp_path)], check=True)
    for path in train.PROMPTS.glob("*.txt"):
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


def test_sampling_is_repeatable_and_not_greedy(model: NgramModel) -> None:
    params = SamplingParams(1.0, 60, True)
    first = _run(model, Drafter(model, 8, 8, 4), _window(3), params)[0]
    assert first == _run(model, Drafter(model, 8, 8, 4), _window(3), params)[0]
    assert first != _run(model, None, _window(3))[0]


def test_stale_steps_accept_nothing_and_say_nothing_sensible(model: NgramModel) -> None:
    engine = BatchEngine(model, Drafter(model, 8, 32, 8))
    ids = model.tokenizer.encode(_window(1))
    request = Request(Generate("r", ids, PARAMS), model.tokenizer, 8, 1)
    for _ in range(40):
        request.extend(engine.stale_step(request))
    assert request.accepted == [40, 0, 0, 0, 0, 0, 0, 0]
    assert request.verify_calls == request.completion_tokens == 40
    assert len(set(request.context[len(ids) :])) > 30


def test_stop_text_across_steps(model: NgramModel) -> None:
    whole, _ = _run(model, None, _window(5))
    stop = whole[30:36]
    text, request = _run(model, None, _window(5), SamplingParams(0.0, 60, True, (stop,)))
    assert request.finish == {"type": "stop", "matched": stop}
    assert request._text == whole[: whole.index(stop)]
    assert text.startswith(request._text[:20])


def test_training_is_left_alone_when_nothing_changed(tmp_path: Path) -> None:
    text = train.training_text(20_000, [], train.CANARIES, train.PROMPTS)
    assert train.train_into(tmp_path / "m", text)
    assert not train.train_into(tmp_path / "m", text)
    extra = tmp_path / "more.txt"
    extra.write_text("something else\n")
    assert train.train_into(
        tmp_path / "m", train.training_text(20_000, [extra], train.CANARIES, train.PROMPTS)
    )


def test_foreign_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"architectures": ["Other"]}')
    with pytest.raises(ValueError, match="treeline_format None"):
        NgramModel.load(tmp_path)
