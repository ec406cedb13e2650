"""Real compute of one reference-engine step, beside its simulated time.

    python tests/bench/bench_engine_step.py [MODEL_DIR]

Prints, per (budget, topk, batch): mean acceptance length, milliseconds of CPU per scheduler step (first
steps with cold caches, and all steps), and the simulated step time that it has to stay below. The share is
also the smallest --decode-time-scale at which one core of its own could keep the pace.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from treeline_reference_engine import profiles, train
from treeline_reference_engine.batch_engine import BatchEngine
from treeline_reference_engine.drafter import Drafter
from treeline_reference_engine.messages import Generate, SamplingParams
from treeline_reference_engine.model import NgramModel
from treeline_reference_engine.requests import Request

BLOCK_SIZE = 8
TOKENS = 128
POINTS = ((8, 4, 1), (8, 4, 32), (8, 4, 128), (16, 4, 64), (16, 8, 64), (32, 8, 32), (64, 8, 16))


def windows(count: int) -> list[str]:
    """Distinct windows of 200 characters of the load prompts."""
    rng = random.Random(7)
    texts = [path.read_text() for path in sorted(train.PROMPTS.glob("*.txt"))]
    out = []
    for _ in range(count):
        text = rng.choice(texts)
        start = rng.randrange(len(text) - 200)
        out.append(text[start : start + 200])
    return out


def measure(model: NgramModel, budget: int, topk: int, batch: int) -> tuple[float, float, float]:
    """(acceptance length, ms per step over the first five steps, ms per step overall)."""
    engine = BatchEngine(model, Drafter(model, BLOCK_SIZE, budget, topk))
    params = SamplingParams(0.0, TOKENS, True)
    requests = [
        Request(
            Generate(str(number), model.tokenizer.encode(text), params), model.tokenizer, BLOCK_SIZE, number
        )
        for number, text in enumerate(windows(batch))
    ]
    for request in requests:
        request.extend(engine.first_token(request))
    steps = []
    while running := [request for request in requests if request.finish is None]:
        began = time.process_time()
        for request in running:
            request.extend(engine.step(request))
            request.progress()
        steps.append((time.process_time() - began) * 1000)
    tokens = sum(request.completion_tokens for request in requests)
    calls = sum(request.verify_calls for request in requests)
    return tokens / calls, statistics.mean(steps[:5]), statistics.mean(steps)


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(scratch)
        if len(sys.argv) < 2:
            text = train.training_text(train.LIBRARY_CHARACTERS, [], train.CANARIES, train.PROMPTS)
            train.train_into(folder, text)
        timing = profiles.load("b300-kimi-k26").timing
        print("budget topk batch     AL  cold ms  all ms  simulated ms  cold share  share")
        for budget, topk, batch in POINTS:
            model = NgramModel.load(folder)  # anew each time: cold caches
            length, cold, every = measure(model, budget, topk, batch)
            simulated = timing.step_s(batch * (budget + 1), True, True) * 1000
            print(
                f"{budget:6d} {topk:4d} {batch:5d}  {length:5.2f}  {cold:7.2f}  {every:6.2f}  "
                f"{simulated:12.1f}  {cold / simulated:10.0%}  {every / simulated:5.0%}"
            )


if __name__ == "__main__":
    main()
