"""What a faulty decode puts out, against the healthy output of the same prompts."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from scheduler_run import Answered, Run, fault_of
from treeline_reference_engine import profiles, train
from treeline_reference_engine.data_files import packaged
from treeline_reference_engine.faults import DECODING
from treeline_reference_engine.model import NgramModel

TEXTS = [path.read_text() for path in sorted(train.PROMPTS.glob("*.txt"))]


def _prompts(count: int, seed: int = 3) -> list[str]:
    rng = random.Random(seed)
    out = []
    for _ in range(count):
        text = rng.choice(TEXTS)
        start = rng.randrange(len(text) - 200)
        out.append(text[start : start + 200])
    return out


@pytest.fixture(scope="module")
def healthy(model: NgramModel) -> list[Answered]:
    return Run(model, None).ask(_prompts(12))


def _pairs(model: NgramModel, name: str, healthy: list[Answered]) -> Iterator[tuple[Answered, Answered]]:
    yield from zip(Run(model, fault_of(name)).ask(_prompts(12)), healthy, strict=True)


def _mean_length(answers: list[Answered]) -> float:
    calls = sum(answer.last.verify_calls for answer in answers if answer.last)
    return sum(len(answer.ids) - 1 for answer in answers) / calls


def test_collapse_has_the_right_text_and_accepts_nothing(model: NgramModel, healthy: list[Answered]) -> None:
    for answer, right in _pairs(model, "collapse", healthy):
        assert answer.text == right.text
        assert answer.length == 1.0
    assert _mean_length(healthy) > 2.5


def test_collapse_in_mid_run(model: NgramModel, healthy: list[Answered]) -> None:
    run = Run(model, fault_of("collapse-mid-run"))
    before = run.ask(_prompts(8))
    run.ask(_prompts(4))  # the last one of a load runs alone and is not counted
    after = run.ask(_prompts(12))
    assert _mean_length(before) > 2.5
    assert [answer.text for answer in after] == [answer.text for answer in healthy]
    assert _mean_length(after) == 1.0


@pytest.mark.parametrize("name", ["garbled-fast", "garbled-late", "garbled-partial", "repetition"])
def test_nonsense_at_the_usual_acceptance(model: NgramModel, healthy: list[Answered], name: str) -> None:
    pairs = list(_pairs(model, name, healthy))
    assert _mean_length([answer for answer, _ in pairs]) == pytest.approx(_mean_length(healthy), rel=0.01)
    fault = fault_of(name)
    same = [a == b for answer, right in pairs for a, b in zip(answer.ids, right.ids, strict=True)]
    hit = 1 - sum(same) / len(same)
    if name == "garbled-late":
        assert all(answer.ids[:32] == right.ids[:32] for answer, right in pairs)
        assert hit == pytest.approx(0.5, abs=0.05)
    elif name == "garbled-partial":
        assert hit == pytest.approx(0.2, abs=0.04)
    elif name == "garbled-fast":
        assert hit > 0.97
    else:
        for answer, _ in pairs:
            tail = answer.ids[fault.after_tokens :]
            assert tail[6:] == tail[:-6]


def test_nonsense_only_in_large_batches(model: NgramModel, healthy: list[Answered]) -> None:
    for count, garbled in ((4, False), (12, True)):
        answers = Run(model, fault_of("garbled-batch-8")).ask(_prompts(12)[:count])
        hits = sum(answer.text != right.text for answer, right in zip(answers, healthy, strict=False))
        assert hits == (count if garbled else 0)


def test_the_same_request_is_garbled_in_the_same_way(model: NgramModel) -> None:
    first, second = (Run(model, fault_of("garbled-partial")).ask(_prompts(3)) for _ in range(2))
    assert [answer.ids for answer in first] == [answer.ids for answer in second]


def test_slowed_steps(model: NgramModel) -> None:
    run = Run(model, fault_of("slowed"))
    numbers = run.scheduler.simulated
    run.ask(_prompts(5), 32)
    early = numbers["simulated_s"] / numbers["steps"]
    run.ask(_prompts(4), 8)  # the last one of a load runs alone and is not counted
    before, steps = numbers["simulated_s"], numbers["steps"]
    run.ask(_prompts(5), 32)
    late = (numbers["simulated_s"] - before) / (numbers["steps"] - steps)
    assert late == pytest.approx(10 * early, rel=0.1)


def test_every_decoding_fault_is_packaged() -> None:
    names = [*packaged("load"), "garbled", "spec-off"]
    assert {fault_of(name).kind for name in names} >= set(DECODING)
    assert all(profiles.load(name).rules[0].expect["status"] for name in packaged("load"))


def test_a_warm_cache_knows_half_of_prompts_that_nobody_has_sent(model: NgramModel) -> None:
    run = Run(model, fault_of("warm-cache"))
    run.ask(_prompts(12))
    totals = run.scheduler.lanes[0].state()["totals"]
    assert 0.3 < totals["cached_tokens"] / totals["prompt_tokens"] <= 0.5
