"""Data-parallel ranks, batching, the reader that goes on without look-ups, and log probabilities."""

from __future__ import annotations

import itertools
import json
import math
import random
import re

from engine_process import StartEngine
from scheduler_run import Run
from treeline_reference_engine import train
from treeline_reference_engine.follow import Cursor, Reader
from treeline_reference_engine.model import NgramModel

TEXT = sorted(train.PROMPTS.glob("*.txt"))[0].read_text()


def test_requests_share_steps(model: NgramModel) -> None:
    prompts = [TEXT[start : start + 150] for start in range(0, 2000, 250)]
    together, alone = Run(model, None), Run(model, None)
    answers = together.ask(prompts)
    apart = [alone.ask([prompt])[0] for prompt in prompts]
    assert [answer.text for answer in answers] == [answer.text for answer in apart]
    longest = max(answer.last.verify_calls for answer in answers if answer.last)
    assert together.scheduler.simulated["steps"] == longest + 1  # and the prefill
    assert together.scheduler.simulated["simulated_s"] < alone.scheduler.simulated["simulated_s"] / 3


def test_lanes_take_turns_and_an_idle_one_has_no_length(model: NgramModel) -> None:
    run = Run(model, None, "--dp-size", "4", "--decode-log-interval", "2")
    run.ask([TEXT[:100], TEXT[300:400]])
    lanes = run.scheduler.state()["lanes"]
    lengths = [lane["avg_spec_accept_length"] for lane in lanes]
    assert all(1.0 <= length <= 8.0 for length in lengths[:2])
    assert lengths[2:] == [None, None]
    assert [lane["totals"]["generation_tokens"] for lane in lanes] == [64, 64, 0, 0]


def test_reading_on_is_the_greedy_choice(model: NgramModel) -> None:
    reader, tokens = Reader(model), model.index.tokens.tolist()
    rng = random.Random(11)
    quick = 0
    for _ in range(60):
        start = rng.randrange(len(tokens) - 40)
        context, cursor = tokens[start : start + rng.randrange(1, 40)], Cursor()
        if rng.random() < 0.3:
            context[-1] = rng.randrange(model.tokenizer.size)
        for _ in range(60):
            expected = model.greedy(context)
            place = cursor.place
            assert reader.next(context, [], cursor) == expected
            quick += cursor.place == place + 1
            context.append(expected)
    assert quick > 60 * 60 / 2


def test_a_served_engine_shows_ranks_margins_and_counters(start_engine: StartEngine) -> None:
    tree = ("--speculative-algorithm", "DDTREE", "--speculative-ddtree-budget", "8")
    engine = start_engine(
        *tree, "--dp-size", "3", "--tp-size", "2", "--enable-metrics", "--decode-time-scale", "0.02",
        "--decode-log-interval", "2",
    ).wait_ready()  # fmt: skip
    engine.generate("The planner moved", 40, ignore_eos=True)
    states = engine.info()["internal_states"]
    assert len(states) == 3
    known = [state["avg_spec_accept_length"] for state in states]
    assert known[2] is None
    assert any(length is not None and length >= 1.0 for length in known[:2])
    assert "TP0] Decode batch" in engine.log
    assert re.search(r" DP[01] TP0\] Decode batch", engine.log)
    metrics = engine.request("GET", "/metrics")[1]
    total = re.findall(r'^sglang:generation_tokens_total\{dp_rank="(\d)".*\} (\S+)$', metrics, re.MULTILINE)
    assert [rank for rank, _ in total] == ["0", "1", "2"]
    assert sum(float(value) for _, value in total) >= 48
    assert 'sglang:spec_verify_calls_total{dp_rank="0"' in metrics

    body = {
        "text": "The planner moved",
        "sampling_params": {"temperature": 0, "max_new_tokens": 24, "ignore_eos": True},
        "return_logprob": True,
        "top_logprobs_num": 2,
    }
    meta = json.loads(engine.request("POST", "/generate", body)[1])["meta_info"]
    own, best = meta["output_token_logprobs"], meta["output_top_logprobs"]
    assert len(own) == len(best) == 24
    for (value, token, _), row in zip(own, best, strict=True):
        assert row[0][1] == token  # greedy: the best one
        assert row[0][0] == value <= 0
        assert all(a[0] >= b[0] for a, b in itertools.pairwise(row))
    assert any(len(row) == 2 and math.exp(row[0][0]) < 0.99 for row in best)
    chat = {
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 5,
        "logprobs": True,
        "top_logprobs": 2,
    }
    choice = json.loads(engine.request("POST", "/v1/chat/completions", chat)[1])["choices"][0]
    assert len(choice["logprobs"]["content"][0]["top_logprobs"]) in (1, 2)
    assert engine.stop() == 0


def test_log_probabilities_are_refused_where_the_dialect_does(start_engine: StartEngine) -> None:
    engine = start_engine("--speculative-algorithm", "DDTREE", "--refuse-logprob").wait_ready()
    status, text = engine.request("POST", "/generate", {"text": "x", "return_logprob": True})
    assert status == 400
    assert "return_logprob" in text
    assert engine.stop() == 0
