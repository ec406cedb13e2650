"""Outputs that can be compared token by token between service lives: the same prompts, greedy, always.

Speculation must not change what a model says. The baseline (speculation off) answers these prompts and
gives the distance between its two likeliest tokens at each place; a later life answers the same ones, and
where it first differs that distance tells whether rounding may have done it. Log-probabilities are asked of
the baseline only: tree dialects refuse them.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Any, Mapping, Optional, Sequence

from . import load_prompts
from .load_client import Client

SEED = "treeline-agreement-1"
COUNT = 16
TOKENS = 48


@dataclass(frozen=True)
class Sample:
    """One answer. `tokens` are ids, `margins` nats between the two likeliest tokens; None: not given."""

    id: str
    prompt_sha256: str
    tokens: Optional[tuple[int, ...]] = None
    margins: Optional[tuple[Optional[float], ...]] = None
    text: str = ""
    error: Optional[str] = None

    def as_dict(self) -> dict[str, Any]:
        """For results: plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Question:
    """One prompt, and its name."""

    id: str
    prompt: str

    @property
    def sha256(self) -> str:
        """Tells whether two lives were asked the same."""
        return hashlib.sha256(self.prompt.encode("utf-8", "replace")).hexdigest()


def questions(texts: Sequence[str], count: int = COUNT) -> list[Question]:
    """The prompts from base texts: the same in every sweep that has the same texts. Raises ValueError."""
    prompts = load_prompts.Prompts(texts, SEED)
    return [Question("agreement-%02d" % (at + 1), prompts.build("agreement", at)) for at in range(count)]


async def ask(client: Client, question: Question, *, with_margins: bool) -> Sample:
    """Ask one of them natively; whatever goes wrong is a sample with an error."""
    payload: dict[str, Any] = {
        "text": question.prompt,
        "sampling_params": {"temperature": 0, "max_new_tokens": TOKENS, "ignore_eos": True},
        "stream": False,
    }
    if with_margins:
        payload.update(return_logprob=True, top_logprobs_num=2)
    answer, error = await client.native(payload)
    if error is not None:
        return Sample(question.id, question.sha256, error="%s: %s" % (error.kind, error.message))
    if not isinstance(answer, dict) or answer.get("error"):
        return Sample(question.id, question.sha256, error="the answer is no completion")
    return read(question, answer)


def read(question: Question, answer: Mapping[str, Any]) -> Sample:
    """A sample from SGLang's native answer."""
    meta = answer.get("meta_info")
    meta = meta if isinstance(meta, dict) else {}
    chosen = _ids(answer.get("output_ids")) or _ids_of_logprobs(meta.get("output_token_logprobs"))
    margins = _margins(meta.get("output_top_logprobs"))
    if chosen is None or margins is None or len(margins) != len(chosen):
        margins = None
    return Sample(question.id, question.sha256, chosen, margins, str(answer.get("text") or ""))


def _ids(given: Any) -> Optional[tuple[int, ...]]:
    if isinstance(given, list) and given and all(type(one) is int for one in given):
        return tuple(given)
    return None


def _ids_of_logprobs(given: Any) -> Optional[tuple[int, ...]]:
    """SGLang before it had output_ids: [[logprob, id, text], ...]."""
    if not isinstance(given, list):
        return None
    return _ids([one[1] for one in given if isinstance(one, (list, tuple)) and len(one) > 1])


def _margins(given: Any) -> Optional[tuple[Optional[float], ...]]:
    """[[[logprob, id, text], [logprob, id, text]], ...] to how far the first is ahead, place by place."""
    return tuple(map(_margin, given)) if isinstance(given, list) and given else None


def _margin(place: Any) -> Optional[float]:
    try:
        best, second = sorted((float(one[0]) for one in place), reverse=True)[:2]
    except (TypeError, ValueError, IndexError):
        return None
    return round(best - second, 4)
