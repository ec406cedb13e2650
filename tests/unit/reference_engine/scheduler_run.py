"""A scheduler without processes and without time: prompts in, answers out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from treeline_reference_engine import profiles
from treeline_reference_engine.batch_engine import BatchEngine
from treeline_reference_engine.cli import build_parser
from treeline_reference_engine.drafter import Drafter
from treeline_reference_engine.faults import Fault
from treeline_reference_engine.messages import Generate, Progress, SamplingParams, Step
from treeline_reference_engine.model import NgramModel
from treeline_reference_engine.scheduler import Scheduler
from treeline_reference_engine.server_args import ServerArgs, resolve


def arguments(*more: str) -> ServerArgs:
    """Resolved arguments of a tree with budget 8, topk 4 and sixteen requests."""
    tree = ("--speculative-algorithm", "DDTREE", "--speculative-ddtree-budget", "8")
    line = ("--model-path", "m", *tree, "--speculative-ddtree-topk", "4", "--max-running-requests", "16")
    return resolve(build_parser().parse_args([*line, *more]), {})


def fault_of(name: str) -> Fault:
    """The fault of a packaged profile with one rule."""
    return profiles.load(name).rules[0].fault


@dataclass
class Answered:
    """One finished request."""

    text: str = ""
    ids: list[int] = field(default_factory=list)
    last: Progress | None = None

    @property
    def length(self) -> float:
        """Acceptance length without the prefill's token."""
        assert self.last is not None
        return (len(self.ids) - 1) / self.last.verify_calls


class Run:
    """A scheduler whose steps take no time."""

    def __init__(self, model: NgramModel, fault: Fault | None, *more: str) -> None:
        self.args = arguments(*more)
        self.steps: list[Step] = []
        timing = profiles.load("none").timing
        drafter = Drafter(model, self.args.block_size, self.args.budget, self.args.topk)
        engine = BatchEngine(model, drafter)
        self.scheduler = Scheduler(
            self.args, engine, timing, fault, 400_000, self._note, lambda deadline: None
        )
        self._model = model

    def _note(self, message: object) -> None:
        if isinstance(message, Step):
            self.steps.append(message)

    def ask(self, prompts: list[str], tokens: int = 64, **params: Any) -> list[Answered]:
        """Put the prompts in at once and run until all are answered."""
        wanted = SamplingParams(
            **{"temperature": 0.0, "max_new_tokens": tokens, "ignore_eos": True, **params}
        )
        self.steps.clear()
        for number, prompt in enumerate(prompts):
            self.scheduler.take(Generate(str(number), self._model.tokenizer.encode(prompt), wanted))
        while self.scheduler.busy:
            self.scheduler.run_once()
        answers = [Answered() for _ in prompts]
        for step in self.steps:
            for news in step.progress:
                answer = answers[int(news.rid)]
                answer.text += news.text
                answer.ids += news.ids
                answer.last = news
        return answers
