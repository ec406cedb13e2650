"""What "best" means: an objective as users write it, and its value for one measured point."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from treeline.records import Measurement
from treeline.rollout.errors import RolloutRefusedError

ALLOWED = "throughput@N (tok/s at N clients), latency@N (ms per token at N clients) or goodput (with an SLO)"
_WRITTEN = re.compile(r"(throughput|latency)@([1-9][0-9]*)")

Kind = Literal["throughput", "latency", "goodput"]


@dataclass(frozen=True)
class Slo:
    """Service level: the 90th percentile of each may be at most this, in ms; None is no demand."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None

    def met_by(self, point: Measurement) -> bool | None:
        """Whether a point keeps it; None where it does not report what is asked for."""
        asked = [(self.ttft_ms, point.ttft_p90_ms), (self.tpot_ms, point.tpot_p90_ms)]
        pairs = [(limit, seen) for limit, seen in asked if limit is not None]
        if any(seen is None for _, seen in pairs):
            return None
        return all(seen is not None and seen <= limit for limit, seen in pairs)


@dataclass(frozen=True)
class Objective:
    """What is compared between configurations."""

    kind: Kind
    concurrency: int | None = None
    slo: Slo = Slo()

    def __str__(self) -> str:
        return self.kind if self.concurrency is None else f"{self.kind}@{self.concurrency}"

    @property
    def unit(self) -> str:
        """Unit of the value."""
        return "ms per token" if self.kind == "latency" else "tok/s"

    @property
    def higher_is_better(self) -> bool:
        """Direction of better."""
        return self.kind != "latency"

    def value(self, points: Iterable[Measurement]) -> tuple[float, Measurement] | None:
        """The value of one service life and the point that gave it; None where no point fits."""
        if self.kind == "goodput":
            kept = [
                (point.output_tok_s, point)
                for point in points
                if point.output_tok_s is not None and self.slo.met_by(point)
            ]
            return max(kept, key=lambda pair: pair[0], default=None)
        for point in points:
            if point.concurrency != self.concurrency or not point.complete:
                continue
            seen = point.output_tok_s if self.kind == "throughput" else point.tpot_p50_ms
            if seen is not None:
                return seen, point
        return None


def parse(text: str, slo: Slo = Slo()) -> Objective:
    """Read an objective. Raises RolloutRefusedError naming what is allowed."""
    if text == "goodput":
        if slo == Slo():
            raise RolloutRefusedError(
                "objective: goodput needs a service level: give slo_ttft_ms, slo_tpot_ms or both"
            )
        return Objective("goodput", None, slo)
    found = _WRITTEN.fullmatch(text)
    if found is None:
        raise RolloutRefusedError(f"objective: {text!r} is not known. Allowed: {ALLOWED}")
    kind: Kind = "throughput" if found[1] == "throughput" else "latency"
    return Objective(kind, int(found[2]), slo)
