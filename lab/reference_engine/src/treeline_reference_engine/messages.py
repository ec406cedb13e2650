"""What the parent and the scheduler process say to each other, over one socket pair.

Parent to scheduler: the arguments' values (a dict, once), then ``Generate``, ``Abort``, ``Flush``.
Scheduler to parent: ``Ready`` (once), then ``Step`` after each simulated step, ``Flushed``, ``Leave``;
``Died`` and ``Announce`` when a fault profile plays the death of a rank.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

PROBE_PREFIX = "HEALTH_CHECK_"
"""How the name of a health probe's request begins, as in SGLang; a fault profile does not count those."""


@dataclass(frozen=True)
class SamplingParams:
    """The part of a request that decides the answer."""

    temperature: float = 0.0
    max_new_tokens: int = 128
    ignore_eos: bool = False
    stop: tuple[str, ...] = ()
    seed: int | None = None
    top_logprobs: int | None = None
    """How many alternatives to each token are asked for; None: no log probabilities at all."""


@dataclass(frozen=True)
class Generate:
    """A new request."""

    rid: str
    ids: list[int]
    params: SamplingParams


@dataclass(frozen=True)
class Abort:
    """The client went away."""

    rid: str


@dataclass(frozen=True)
class Flush:
    """Empty the prefix cache, if nothing runs."""


@dataclass(frozen=True)
class Ready:
    """Start-up is over: the port may open."""

    max_total_num_tokens: int
    capture_sizes: list[int]
    fault: dict[str, Any]


# (log probability of the token, the most probable tokens with theirs), best first
TokenLogprobs = tuple[float, list[tuple[float, int]]]


@dataclass(frozen=True)
class Progress:
    """News of one request after one step. ``text`` is new; with ``whole`` it replaces all text so far."""

    rid: str
    text: str
    whole: bool
    ids: list[int]
    verify_calls: int
    accepted: list[int]
    cached_tokens: int
    finish: dict[str, Any] | None
    logprobs: list[TokenLogprobs] = field(default_factory=list)


@dataclass(frozen=True)
class Step:
    """One simulated step: the requests' news and the scheduler's state."""

    progress: list[Progress]
    state: dict[str, Any]


@dataclass(frozen=True)
class Flushed:
    """Answer to ``Flush``."""

    done: bool


@dataclass(frozen=True)
class Leave:
    """A fault profile asks for an orderly exit."""

    reason: str = field(default="")


@dataclass(frozen=True)
class Died:
    """A rank's process came to an end that only the parent can tell of."""

    rank: int
    pid: int
    code: int


@dataclass(frozen=True)
class Announce:
    """Another process saw a child fail first: the parent's line comes before the child's error."""


def connection(descriptor: int) -> Connection:
    """The pickling connection over one end of a socket pair. Both ends are this program."""
    return Connection(descriptor)
