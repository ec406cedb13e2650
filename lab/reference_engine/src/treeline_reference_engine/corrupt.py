"""What a faulty decode puts out: nonsense, circles, or right text without any accepted draft.

The model goes on from the right tokens where acceptance is to stay as usual; what a client sees is then
something else. Which tokens are hit follows from the request's own numbers, so that a run can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable

from .batch_engine import BatchEngine
from .faults import Fault
from .requests import Request

_PERIOD = 6  # tokens after which a repetition begins anew
_MIX = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


class Corruption:
    """A fault of the kind garbled, collapse, salad or repetition; `begun` is set by the scheduler."""

    def __init__(self, fault: Fault, salad: Callable[[int], int]) -> None:
        self._fault = fault
        self._salad = salad
        self.begun = not fault.after_requests

    def watch(self, finished: int) -> None:
        """Begin once enough requests have finished."""
        self.begun = self.begun or finished >= (self._fault.after_requests or 0)

    def step(self, engine: BatchEngine, graph: bool) -> Callable[[Request], list[int]]:
        """How the steps of this batch are made."""
        if not self.begun:
            return engine.step
        if self._fault.kind == "collapse":
            return engine.bonus_step
        # Stale metadata is a matter of graph replays: an eager batch stays right.
        return engine.stale_step if self._fault.kind == "garbled" and graph else engine.step

    def shown(self, request: Request, tokens: list[int], batch: int) -> list[int]:
        """What the client gets in the place of ``tokens``."""
        fault = self._fault
        if not self.begun or batch < fault.min_batch or fault.kind not in ("salad", "repetition"):
            return tokens
        seen = request.shown
        out: list[int] = []
        for token in tokens:
            position = len(seen) + len(out)
            if position < fault.after_tokens or not self._hit(request, position):
                out.append(token)
            elif fault.kind == "salad":
                out.append(self._salad(_mixed(request, position, 1)))
            else:
                out.append((seen + out)[position - _PERIOD] if position >= _PERIOD else token)
        return out

    def _hit(self, request: Request, position: int) -> bool:
        share = self._fault.share
        return share >= 1.0 or _mixed(request, position, 2) < share * (_MASK + 1)


def _mixed(request: Request, position: int, salt: int) -> int:
    """A number of 64 bits that follows from the request's prompt and the position alone."""
    x = (request.fingerprint + _MIX * (2 * position + salt)) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)
