"""What a load is asked to do: client keys, canaries and bounds, checked before the first request."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Pattern, Sequence

MAX_REQUESTS = 256
MIN_REQUESTS = 8
MAX_CONCURRENCY = 4096


class SpecError(ValueError):
    """An argument cannot be used; the message names it, its value and what is allowed."""


@dataclass(frozen=True)
class ClientKey:
    """How one point is loaded: requests in flight, and prompt length in tokens (about; None = the usual)."""

    concurrency: int
    context: Optional[int] = None

    @property
    def label(self) -> str:
        """Names the point in seeds and records."""
        return "c%d" % self.concurrency + ("" if self.context is None else "-x%d" % self.context)


@dataclass(frozen=True)
class Canary:
    """One question whose right answer is known: `expect` is searched in the answer."""

    id: str
    messages: Sequence[Mapping[str, Any]]
    expect: Pattern[str]
    max_tokens: int = 32
    whole: bool = False

    def is_right(self, answer: Optional[str]) -> bool:
        """Whether the answer (None when there was no content) is the known one."""
        if answer is None:
            return False
        return bool(self.expect.fullmatch(answer.strip()) if self.whole else self.expect.search(answer))


@dataclass(frozen=True)
class Limits:
    """Bounds in seconds: connecting, silence after a chunk, one request with its queueing, the whole load."""

    connect_s: float = 10.0
    chunk_s: float = 60.0
    request_s: float = 600.0
    total_s: float = 1800.0


@dataclass(frozen=True)
class Spec:
    """One load. `requests_per_key` 0 means the rule: twice the concurrency, at least 8, at most 256."""

    base_url: str
    client_keys: Sequence[ClientKey]
    canaries: Sequence[Canary]
    prompts: Sequence[str]
    prompts_seed: str
    out_dir: str
    requests_per_key: int = 0
    max_tokens: int = 128
    limits: Limits = field(default_factory=Limits)
    api_key: Optional[str] = None

    def requests_for(self, key: ClientKey) -> int:
        """How many measured requests a point gets; never fewer than its concurrency."""
        if self.requests_per_key > 0:
            return max(self.requests_per_key, key.concurrency)
        return max(key.concurrency, min(MAX_REQUESTS, max(2 * key.concurrency, MIN_REQUESTS)))


def parse_client_keys(given: Sequence[Mapping[str, Any]]) -> list[ClientKey]:
    """Client keys, busiest first. Raises SpecError."""
    if not given:
        raise SpecError("client_keys: the list is empty; at least one {concurrency, context} is needed")
    keys = [_client_key(index, entry) for index, entry in enumerate(given)]
    repeated = sorted({key.label for key in keys if keys.count(key) > 1})
    if repeated:
        raise SpecError("client_keys: %s is given more than once" % ", ".join(repeated))
    return sorted(keys, key=lambda key: (-key.concurrency, -(key.context or 0)))


def _client_key(index: int, entry: Mapping[str, Any]) -> ClientKey:
    concurrency = _whole("client_keys[%d].concurrency" % index, entry.get("concurrency"), 1, MAX_CONCURRENCY)
    context = entry.get("context")
    if context is not None:
        context = _whole("client_keys[%d].context" % index, context, 1, 10_000_000)
    return ClientKey(concurrency, context)


def parse_canaries(given: Sequence[Mapping[str, Any]]) -> list[Canary]:
    """Canaries from {id, prompt or messages, expect, max_tokens, match}. Raises SpecError."""
    return [_canary(index, entry) for index, entry in enumerate(given)]


def _canary(index: int, entry: Mapping[str, Any]) -> Canary:
    where = "canaries[%d]" % index
    messages = entry.get("messages") or [{"role": "user", "content": entry.get("prompt")}]
    if not isinstance(messages, list) or not all(
        isinstance(one, Mapping) and one.get("role") and one.get("content") for one in messages
    ):
        raise SpecError("%s: a `prompt` text or `messages` with role and content are needed" % where)
    try:
        expect = re.compile(str(entry["expect"]), re.DOTALL)
    except KeyError:
        raise SpecError("%s.expect: a regular expression on the answer is needed" % where) from None
    except re.error as error:
        raise SpecError(
            "%s.expect: %r is no regular expression: %s" % (where, entry["expect"], error)
        ) from None
    match = str(entry.get("match") or "search")
    if match not in ("search", "fullmatch"):
        raise SpecError("%s.match: %r is not allowed; search or fullmatch are" % (where, match))
    return Canary(
        id=str(entry.get("id") or index),
        messages=messages,
        expect=expect,
        max_tokens=_whole("%s.max_tokens" % where, entry.get("max_tokens") or 32, 1, 100_000),
        whole=match == "fullmatch",
    )


def _whole(name: str, value: Any, low: int, high: int) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = low - 1
    if isinstance(value, bool) or not low <= number <= high:
        raise SpecError("%s: %r is not a whole number from %d to %d" % (name, value, low, high))
    return number
