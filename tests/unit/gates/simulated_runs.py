"""Loads as the load module returns them, healthy or with a planted fault, made without an engine.

The texts are real: greedy continuations by the reference engine's n-gram model, and its answers to the
shipped canaries, judged by the code that judges them on a target. Counts and times are simulated. Faults are
planted token by token. Every run has a seed of its own; the prompts come from the second halves of the
shipped texts, the limits of the detector were set on the first halves and on other texts.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from treeline import gates, material
from treeline.baselines import Answer, Baseline, Sample
from treeline.gates import STATUS_OF_GATE
from treeline.keys import RestartKey
from treeline.records import Gate
from treeline.steps import Steps
from treeline_reference_engine import train
from treeline_reference_engine.chat import render_chat
from treeline_reference_engine.model import ORDERS, NgramModel
from treeline_reference_engine.tokenizer import EOS
from treeline_target import (
    acceptance_windows,
    agreement,
    garble,
    garble_pool,
    load_canaries,
    load_prompts,
    load_spec,
)

BUSY = 16
POINTS = ((BUSY, 16), (1, 8))  # concurrency, requests
BLOCK = 8
STEP_S = 0.1
# Healthy lives are not copies of the baseline: rounding flips close calls, and now and then a canary.
CLOSE_NATS, FLIP = 1.0, 0.01
CANARY_FLIP = 0.005


@dataclass(frozen=True)
class Fault:
    """What is wrong with a run. ``spoil`` changes the tokens of one output (not those of healthy runs)."""

    name: str
    spoil: Callable[[list[int], random.Random, World], list[int]] | None = None
    collapsed: bool = False
    collapses_midway: bool = False
    busy_only: bool = False
    status: str = "garbled"


class World:
    """A trained model, what it answers without faults, and the baseline that it gives."""

    def __init__(self, library_characters: int = 150_000) -> None:
        text = train.training_text(library_characters, [], train.CANARIES, train.PROMPTS)
        self.model: NgramModel = train.train(text)
        self.texts = [base[len(base) // 2 :] for base in material.prompts()]
        self.canaries = load_spec.parse_canaries(material.canaries())
        self.answers = {one.id: self._answer(one) for one in self.canaries}
        self.vocabulary = range(257 + 97, self.model.tokenizer.size)
        self.questions = agreement.questions(self.texts)
        self.references = [self.continued(one.prompt, agreement.TOKENS) for one in self.questions]
        self.margins = [
            self._margins(one.prompt, tokens)
            for one, tokens in zip(self.questions, self.references, strict=True)
        ]
        self.baseline = self._baseline()

    def continued(self, prompt: str, tokens: int, start: Sequence[int] = ()) -> list[int]:
        """Greedy tokens after a prompt, the end of the text ignored; ``start`` are the first of them."""
        context = [*self.model.tokenizer.encode(prompt), *start]
        begin = len(context) - len(start)
        while len(context) - begin < tokens:
            context.append(self.model.greedy(context[-ORDERS[-1] :]))
        return context[begin:]

    def text(self, tokens: Sequence[int]) -> str:
        return self.model.tokenizer.decode(tokens)

    def noise(self, rng: random.Random) -> int:
        return rng.choice(self.vocabulary)

    def _answer(self, canary: load_spec.Canary) -> list[int]:
        context = self.model.tokenizer.encode(render_chat(canary.messages))
        begin = len(context)
        while len(context) - begin < canary.max_tokens:
            token = self.model.greedy(context[-ORDERS[-1] :])
            if token == EOS:
                break
            context.append(token)
        return context[begin:]

    def _margins(self, prompt: str, tokens: Sequence[int]) -> list[float]:
        context = self.model.tokenizer.encode(prompt)
        found = []
        for token in tokens:
            values = sorted(self.model.distribution(context[-ORDERS[-1] :]).values(), reverse=True)
            found.append(math.log(values[0] / values[1]) if len(values) > 1 else 10.0)
            context.append(token)
        return found

    def _baseline(self) -> Baseline:
        samples = zip(self.questions, self.references, self.margins, strict=True)
        return Baseline(
            hardware_class="simulated",
            engine_build="simulated",
            model="ngram",
            trial_id="baseline-0001",
            sweep_id="baseline",
            host="none",
            at="2026-01-01T00:00:00.000Z",
            key=RestartKey(budget=0, topk=1, maxreq=BUSY, block_size=BLOCK, graphs=True),
            canaries={
                one.id: Answer(
                    expect=one.expect.pattern, busiest=one.is_right(self.text(self.answers[one.id]))
                )
                for one in self.canaries
            },
            samples=tuple(
                Sample(
                    id=question.id,
                    prompt_sha256=question.sha256,
                    tokens=tuple(tokens),
                    margins=tuple(margins),
                )
                for question, tokens, margins in samples
            ),
            looping_share=0.0,
        )


def _salad(tokens: list[int], rng: random.Random, world: World) -> list[int]:
    return [world.noise(rng) for _ in tokens]


def _fifth_replaced(tokens: list[int], rng: random.Random, world: World) -> list[int]:
    return [world.noise(rng) if rng.random() < 0.2 else token for token in tokens]


def _late(tokens: list[int], rng: random.Random, world: World) -> list[int]:
    return [token if at < 32 else world.noise(rng) for at, token in enumerate(tokens)]


def _loop(tokens: list[int], rng: random.Random, world: World) -> list[int]:
    """From somewhere in the first quarter on, the last one to eight tokens for ever."""
    begin = rng.randint(1, max(1, len(tokens) // 4))
    unit = tokens[max(0, begin - rng.randint(1, 8)) : begin]
    return (tokens[:begin] + unit * len(tokens))[: len(tokens)]


HEALTHY = Fault("healthy", status="ok")
CAUGHT = (
    Fault("collapse with right text", collapsed=True, status="accept_collapse"),
    Fault("garble with normal acceptance", _salad),
    Fault("20 % of tokens replaced", _fifth_replaced),
    Fault("repetition", _loop),
)
REPORTED = (
    Fault("garbage only after 32 tokens", _late),
    Fault("garbage only at batch >= 8", _salad, busy_only=True),
    Fault("collapse in mid-run", collapses_midway=True, status="accept_collapse"),
)


def load_result(world: World, fault: Fault, seed: str) -> dict[str, Any]:
    """What treeline_load would have returned for this run."""
    rng = random.Random(seed)
    tokens = rng.choice((40, 128))
    acceptance = rng.uniform(2.5, 6.0)
    prompts = load_prompts.Prompts(world.texts, seed)
    points = [
        _point(world, fault, rng, prompts, concurrency, requests, tokens, acceptance)
        for concurrency, requests in POINTS
    ]
    single = [_canary(world, fault, rng, one, "single") for one in world.canaries[: load_canaries.SINGLE]]
    busiest = [_canary(world, fault, rng, one, "busiest") for one in world.canaries]
    return {
        "outcome": "done",
        "points": points,
        "canaries": [*single, *busiest],
        "samples": [_sample(world, fault, rng, at) for at in range(len(world.questions))],
        "engine": {"name": "reference", "simulated": True, "overrun_share": 0.0},
    }


def judged(world: World, load: dict[str, Any], with_baseline: bool) -> tuple[str, list[Gate]]:
    """The status that the gates give a run, and the gates that failed."""
    found = gates.evaluate(
        Steps.of({"load": load}),
        None,
        trial_id="simulated",
        points_asked=len(POINTS),
        baseline="auto" if with_baseline else "skip",
        stored=world.baseline if with_baseline else None,
    )
    failed = {gate.name: gate for gate in found if gate.verdict == "failed"}
    status = next((status for name, status in STATUS_OF_GATE if name in failed), "ok")
    return status, list(failed.values())


def _hits(fault: Fault, concurrency: int) -> bool:
    return fault.spoil is not None and (concurrency >= 8 or not fault.busy_only)


def _point(
    world: World,
    fault: Fault,
    rng: random.Random,
    prompts: load_prompts.Prompts,
    concurrency: int,
    requests: int,
    tokens: int,
    acceptance: float,
) -> dict[str, Any]:
    texts = []
    for index in range(requests):
        output = world.continued(prompts.build(f"point/{concurrency}", index), tokens)
        if fault.spoil is not None and _hits(fault, concurrency):
            output = fault.spoil(output, rng, world)
        texts.append(world.text(output))
    streams, calls = _streams(fault, rng, concurrency, requests, tokens, acceptance)
    return {
        "concurrency": concurrency,
        "context": None,
        "complete": True,
        "requests": requests,
        "ok": requests,
        "failed": 0,
        "completion_tokens": requests * tokens,
        "verify_calls": calls,
        "prefix_cache_share": 0.0,
        "al_windows": acceptance_windows.of(streams),
        "garble": garble_pool.summarise(texts, map(garble.inspect, texts), requests * tokens),
    }


def _streams(
    fault: Fault, rng: random.Random, concurrency: int, requests: int, tokens: int, acceptance: float
) -> tuple[list[tuple[list[float], list[int]]], int]:
    """Chunks of the requests of a point, ``concurrency`` of them side by side, and verify calls of all."""
    waves = math.ceil(requests / concurrency)
    middle = waves * tokens / acceptance * STEP_S / 2
    free = [0.0] * concurrency
    streams, calls = [], 0
    for index in range(requests):
        now = free[index % concurrency]
        times, counts = [now], [1]
        while counts[-1] < tokens:
            now += STEP_S
            stuck = fault.collapsed or (fault.collapses_midway and now > middle)
            share = 0.0 if stuck else (acceptance - 1) / (BLOCK - 1)
            gained = 1 + sum(rng.random() < share for _ in range(BLOCK - 1))
            times.append(now)
            counts.append(min(tokens, counts[-1] + gained))
            calls += 1
        free[index % concurrency] = now
        streams.append((times, counts))
    return streams, calls


def _canary(
    world: World, fault: Fault, rng: random.Random, canary: load_spec.Canary, phase: str
) -> dict[str, Any]:
    tokens = list(world.answers[canary.id])
    if rng.random() < CANARY_FLIP:
        tokens[0] = world.noise(rng)
    if fault.spoil is not None and _hits(fault, BUSY if phase == "busiest" else 1):
        tokens = fault.spoil(tokens, rng, world)
    text = world.text(tokens)
    return load_canaries.Answer(
        canary.id, phase, canary.is_right(text), canary.expect.pattern, text, finish="stop"
    ).as_dict()


def _sample(world: World, fault: Fault, rng: random.Random, at: int) -> dict[str, Any]:
    question, tokens = world.questions[at], list(world.references[at])
    for place, margin in enumerate(world.margins[at]):
        if margin < CLOSE_NATS and rng.random() < FLIP:
            tokens = world.continued(question.prompt, len(tokens), [*tokens[:place], world.noise(rng)])
            break
    if fault.spoil is not None and _hits(fault, BUSY):
        tokens = fault.spoil(tokens, rng, world)
    return agreement.Sample(question.id, question.sha256, tuple(tokens), text=world.text(tokens)).as_dict()
