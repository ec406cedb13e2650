"""Questions with known answers: some asked alone, and all while the busiest load is kept up.

An engine can serve fast and wrong; some only do so at the batch sizes of a busy service. For the second phase
the busiest point's load goes on, unmeasured, while the canaries take some of its places, so that the engine
sees exactly that concurrency and the measurement before stays clean.

Asked one after the other, each canary costs a whole answer's time; the first SINGLE of them are enough to
tell that a service writes nonsense before it is loaded. The verdict rests on all of them, at the busiest
point. The outputs that are compared with the baseline's token by token are asked for there too.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, dataclass
from typing import Any, Callable, Optional, Sequence

from . import agreement
from .load_client import Client
from .load_loops import Run, Work, closed_loop
from .load_spec import Canary

SINGLE = 8
PLACES = 8
# An answer is kept whole, for it may be code that is run; what was thought before it is only shown.
_KEPT = 4000
_SHOWN = 200
_FULL_LOAD_S = 30.0


@dataclass(frozen=True)
class Answer:
    """What came back for one canary; answers are cut to 4000 characters, other texts to 200.

    `under_load` (phase busiest): no request of the load around it had failed when it was answered.
    """

    id: str
    phase: str
    ok: bool
    expect: str
    got: Optional[str]
    reasoning: Optional[str] = None
    error: Optional[str] = None
    finish: Optional[str] = None
    under_load: Optional[bool] = None
    e2e_s: Optional[float] = None

    def as_dict(self) -> dict[str, Any]:
        """For results: plain values."""
        return asdict(self)


def _cut(text: Any) -> Optional[str]:
    return str(text)[:_SHOWN] if text else None


async def ask(
    client: Client, canary: Canary, phase: str, model: str, is_loaded: Optional[Callable[[], bool]] = None
) -> Answer:
    """Ask one canary; an error, or a thought without an answer, is a wrong answer that says so."""
    began = time.monotonic()
    loaded = is_loaded() if is_loaded is not None else None
    choice, error = await client.chat(canary.messages, canary.max_tokens, model)
    took = round(time.monotonic() - began, 6)
    if is_loaded is not None:
        loaded = bool(loaded and is_loaded())
    if choice is None:
        said = "%s: %s" % (error.kind, error.message) if error else "no answer"
        return Answer(
            canary.id, phase, False, canary.expect.pattern, None, error=said, under_load=loaded, e2e_s=took
        )
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    content = message.get("content")
    content = content if isinstance(content, str) else None
    thought = message.get("reasoning_content")
    if content is None and not thought:
        content = ""  # SGLang's null: an answer without any text is a wrong one
    return Answer(
        id=canary.id,
        phase=phase,
        ok=canary.is_right(content),
        expect=canary.expect.pattern,
        got=content[:_KEPT] if content is not None else None,
        reasoning=_cut(thought),
        error=None if content is not None else "the answer has no content",
        finish=_cut(choice.get("finish_reason")),
        under_load=loaded,
        e2e_s=took,
    )


async def ask_alone(
    client: Client, canaries: Sequence[Canary], model: str, answers: list[Answer], first: int = SINGLE
) -> None:
    """Ask the first canaries by themselves, one after the other; `answers` grows as they come."""
    for canary in canaries[:first]:
        answers.append(await ask(client, canary, "single", model))


def _answering(run: Run) -> int:
    """How many requests of the load have had a first chunk, or have ended (well or not)."""
    return sum(1 for one in run.records if one.exchange.first or one.exchange.ended)


async def ask_busy(
    work: Work,
    run: Run,
    model: str,
    answers: list[Answer],
    samples: Optional[list[agreement.Sample]] = None,
    with_margins: bool = False,
) -> None:
    """Ask each canary while the load of `run.key` is kept up; `answers` and `run.records` grow meanwhile.

    With `samples`, which grows too, the outputs for comparison with the baseline are asked for as well,
    `with_margins` for the baseline itself. At most half the places are taken, one where there is only one.
    """
    client, spec = work.client, work.spec
    if not spec.canaries:
        return
    places = max(1, min(PLACES, run.key.concurrency // 2, len(spec.canaries)))
    others = run.key.concurrency - places
    over = asyncio.Event()

    def is_loaded() -> bool:
        return others == 0 or not any(record.exchange.error for record in run.records)

    filler = None
    if others:
        filler = asyncio.ensure_future(
            closed_loop(
                work, run, None, spec.max_tokens, clients=others, keep_going=lambda: not over.is_set()
            )
        )
    try:
        deadline = time.monotonic() + _FULL_LOAD_S
        while filler is not None and _answering(run) < others and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        queue = iter(spec.canaries)
        compared = iter(agreement.questions(spec.prompts) if samples is not None else ())

        async def one_place() -> None:
            for canary in queue:
                answers.append(await ask(client, canary, "busiest", model, is_loaded))
            for question in compared:
                sample = await agreement.ask(client, question, with_margins=with_margins)
                if samples is not None:
                    samples.append(sample)

        await asyncio.gather(*(one_place() for _ in range(places)))
        over.set()
        if filler is not None:
            await filler
    finally:
        if filler is not None:
            filler.cancel()
            await asyncio.gather(filler, return_exceptions=True)
