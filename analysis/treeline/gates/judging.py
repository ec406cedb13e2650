"""What all gates share: their limits, what they read of the log, and how a verdict is put."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from treeline.records import Gate, GateVerdict


class LogFacts(Protocol):
    """What gates and verdicts read of ``treeline.signatures.LogVerdict``."""

    @property
    def class_(self) -> str: ...
    @property
    def phase(self) -> str | None: ...
    @property
    def kind(self) -> str: ...
    @property
    def first_error(self) -> str | None: ...
    @property
    def rank(self) -> int | None: ...
    @property
    def captured_bs(self) -> int | None: ...
    @property
    def captured_width(self) -> int | None: ...
    @property
    def secondary(self) -> tuple[str, ...]: ...
    @property
    def advice(self) -> str: ...
    @property
    def accept_lens(self) -> tuple[float, ...]: ...


@dataclass(frozen=True)
class Limits:
    """What the gates allow. Shares are 0..1, acceptance lengths are in tokens per verify call.

    Attributes:
        canary_share: right answers among the canaries that count.
        canaries: fewest that must count.
        paired_chance: the exact test against the baseline fails below this probability.
        coding_tasks: fewest tasks that say anything.
        garbled_share: outputs of a point that look garbled by themselves.
        outputs: fewest outputs of a point that say anything.
        looping_share: outputs of a point that end in a loop, where no baseline tells what is usual.
        looping_excess: the same, above the baseline's share (and never below ``looping_least``).
        margin: nats between the two likeliest tokens from which on rounding explains no difference.
        disagreement: places of large margin that may differ from the baseline all the same.
        compared: fewest such places that say anything.
        acceptance: at or below it, speculation has collapsed.
        verify_calls: fewest at a point that say anything.
        anchor_ratio: acceptance over that of the anchor.
        within_run: at or below it in three neighbouring windows, acceptance has collapsed in mid-run.
        within_run_of: acceptance of the whole point from which on such a fall can be told from noise.
        window_calls: fewest verify calls in three neighbouring windows.
    """

    canary_share: float = 0.6
    canaries: int = 3
    paired_chance: float = 0.01
    coding_tasks: int = 4
    garbled_share: float = 0.2
    outputs: int = 8
    looping_share: float = 0.5
    looping_excess: float = 0.25
    looping_least: float = 0.3
    margin: float = 2.0
    disagreement: float = 0.001
    compared: int = 50
    acceptance: float = 1.05
    verify_calls: int = 20
    anchor_ratio: float = 0.6
    within_run: float = 1.05
    within_run_of: float = 1.3
    window_calls: int = 64
    prefix_cache_share: float = 0.01
    overrun_share: float = 0.2


LIMITS = Limits()


def judge(name: str, value: Any, limit: Any, passed: bool | None, detail: str = "") -> Gate:
    """A gate; ``passed`` None means that there is too little to go on."""
    verdict: GateVerdict = "not available" if passed is None else "passed" if passed else "failed"
    return Gate(name=name, verdict=verdict, value=_scalar(value), limit=_scalar(limit), detail=detail)


def _scalar(value: Any) -> float | int | str | bool | None:
    return value if value is None or isinstance(value, float | int | str | bool) else str(value)


def number(values: Mapping[str, Any], name: str) -> float | None:
    """A field that holds a number, else None."""
    value = values.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def mapping(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A field that holds a mapping, else an empty one."""
    value = values.get(name)
    return value if isinstance(value, Mapping) else {}


def label(point: Mapping[str, Any]) -> str:
    """A point for people."""
    context = point.get("context")
    return f"concurrency {point.get('concurrency')}" + (f" context {context}" if context else "")
