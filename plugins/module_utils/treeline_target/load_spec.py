"""What a load is asked to do: client keys, canaries, loop and bounds, checked before the first request."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Pattern, Sequence

from . import gpu_tool

MAX_REQUESTS = 256
MIN_REQUESTS = 8
MAX_CONCURRENCY = 4096
MAX_REQUESTS_PER_KEY = 20_000
MAX_REPEATS = 50
MAX_RETRIES = 20
MAX_SOAK_S = 7 * 86400.0
USUAL_MIN_REPEATS = 3
USUAL_MAX_REPEATS = 10
APIS = ("native", "chat")
ARRIVALS = ("poisson", "constant")
SAMPLES = ("none", "tokens", "margins")


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
    """Bounds in seconds: connecting, silence after a chunk, one request with its queueing, the whole load.

    `no_token_s` ends the load when the engine holds requests and none of them gets a token for so long.
    """

    connect_s: float = 10.0
    chunk_s: float = 60.0
    request_s: float = 600.0
    total_s: float = 1800.0
    no_token_s: float = 120.0


@dataclass(frozen=True)
class Repeats:
    """How often each client key is measured inside this life: at least `low` times, at most `high` times.

    In between it ends for a key whose mean throughput is known to within `target` (half the 95 % confidence
    interval / mean, 0.01 is one percent); without `target` it is `high` times.
    """

    low: int = 1
    high: int = 1
    target: Optional[float] = None


@dataclass(frozen=True)
class Slo:
    """What a request must keep to count as good: time to first token, and per output token (milliseconds)."""

    ttft_ms: Optional[float] = None
    tpot_ms: Optional[float] = None

    @property
    def given(self) -> bool:
        """Whether anything is asked."""
        return self.ttft_ms is not None or self.tpot_ms is not None


@dataclass(frozen=True)
class Spec:
    """One load. `requests_per_key` 0 means the rule: twice the concurrency, at least 8, at most 256.

    Without `rate` the loop is closed: a request is sent when an earlier one ends. With it (requests/s)
    requests are due at times that no answer changes, at random (`arrival` poisson) or evenly (constant); the
    concurrency of a client key is then the most that are in flight, and waiting for a place is latency.
    `questions`: the prompts are whole questions, not texts to take windows of. `soak_s`: for how long the
    busiest key goes on after the points. `samples`: whether outputs to compare with the baseline's are asked
    for, as `tokens`, or with `margins` of the baseline itself. `gpu_query`: the tool that samples the GPUs
    meanwhile. `canaries_single`: how many canaries are asked alone; None: the usual number.
    """

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
    api: str = "native"
    stream: bool = True
    rate: Optional[float] = None
    arrival: str = "poisson"
    retries: int = 0
    repeats: Repeats = field(default_factory=Repeats)
    slo: Slo = field(default_factory=Slo)
    soak_s: float = 0.0
    flush: bool = True
    questions: bool = False
    samples: str = "none"
    gpu_query: str = gpu_tool.NONE
    canaries_single: Optional[int] = None

    def requests_for(self, key: ClientKey) -> int:
        """How many measured requests a point gets; never fewer than its concurrency."""
        if self.requests_per_key > 0:
            return max(self.requests_per_key, key.concurrency)
        return max(key.concurrency, min(MAX_REQUESTS, max(2 * key.concurrency, MIN_REQUESTS)))

    @property
    def total_s(self) -> float:
        """The bound of the whole load: that of the points, and the soak with the end of its last requests."""
        return self.limits.total_s + (self.soak_s + 60.0 if self.soak_s else 0.0)

    def checked(self) -> Spec:
        """This spec. Raises SpecError for a value that cannot be used."""
        _one_of("api", self.api, APIS)
        _one_of("arrival", self.arrival, ARRIVALS)
        _one_of("samples", self.samples, SAMPLES)
        _whole("requests_per_key", self.requests_per_key, 0, MAX_REQUESTS_PER_KEY)
        _whole("max_tokens", self.max_tokens, 1, 1_000_000)
        _whole("retries", self.retries, 0, MAX_RETRIES)
        _whole("min_repeats", self.repeats.low, 1, MAX_REPEATS)
        _whole("max_repeats", self.repeats.high, self.repeats.low, MAX_REPEATS)
        _between("target_rel_ci", self.repeats.target, 0.0001, 1.0)
        _between("rate", self.rate, 0.001, 100_000.0)
        _between("slo.ttft_ms", self.slo.ttft_ms, 0.001, 1e9)
        _between("slo.tpot_ms", self.slo.tpot_ms, 0.001, 1e9)
        _between("soak_s", self.soak_s, 0.0, MAX_SOAK_S)
        return self


def repeats_of(
    repeats: Optional[int], low: Optional[int], high: Optional[int], target: Optional[float]
) -> Repeats:
    """From the arguments of that name: a cap alone is how often, a target alone goes up to the usual cap."""
    floor = low or repeats or (USUAL_MIN_REPEATS if target is not None else 1)
    ceiling = high or repeats or (max(floor, USUAL_MAX_REPEATS) if target is not None else floor)
    return Repeats(floor, ceiling, target)


def parse_slo(given: Optional[Mapping[str, Any]]) -> Slo:
    """An objective from {ttft_ms, tpot_ms}. Raises SpecError."""
    values: dict[str, Optional[float]] = {}
    for name, value in (given or {}).items():
        if name not in ("ttft_ms", "tpot_ms"):
            raise SpecError("slo.%s: ttft_ms and tpot_ms are known" % name)
        try:
            values[name] = None if value in (None, "") else float(value)
        except (TypeError, ValueError):
            raise SpecError("slo.%s: %r is no number of milliseconds" % (name, value)) from None
    return Slo(**values)


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


def _one_of(name: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise SpecError("%s: %r is not allowed; %s are" % (name, value, " and ".join(allowed)))


def _between(name: str, value: Optional[float], low: float, high: float) -> None:
    if value is not None and not low <= value <= high:  # NaN is not in between either
        raise SpecError("%s: %r is not a number from %g to %g" % (name, value, low, high))
