"""Whether the host changed while a sweep ran: the anchor configuration at start, middle and end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LIMIT = 0.03


@dataclass(frozen=True)
class Drift:
    """How far the anchor moved, as shares of its first value.

    Attributes:
        largest: the largest distance from the first value, signed; None with fewer than two anchors.
        end_to_end: the last against the first, signed; None with fewer than two.
        limit: what is allowed.
    """

    anchors: int
    largest: float | None
    end_to_end: float | None
    limit: float

    @property
    def drifted(self) -> bool | None:
        """Whether the anchor moved more than allowed; None where it cannot be told."""
        return None if self.largest is None else abs(self.largest) > self.limit

    @property
    def text(self) -> str:
        """The verdict in words."""
        if self.largest is None or self.end_to_end is None:
            return f"drift not available: {self.anchors} of the at least 2 anchor trials that it takes"
        moved = f"{self.largest * 100:+.1f} % at most, {self.end_to_end * 100:+.1f} % from first to last"
        if self.drifted:
            allowed = f"allowed {self.limit * 100:g} %"
            return f"the host drifted: anchor {moved} ({allowed}); compare only neighbours in time"
        return f"no drift shown: anchor {moved} over {self.anchors} trials (allowed {self.limit * 100:g} %)"


def drift(anchors: Sequence[float], limit: float = LIMIT) -> Drift:
    """Judge the anchor's values in the order of their measurement, one for each service life.

    Args:
        anchors: positive values such as tokens per second.
        limit: allowed distance from the first one, as a share.

    Raises:
        ValueError: a value is not positive.
    """
    if any(not value > 0 for value in anchors):
        raise ValueError(f"anchors {list(anchors)} must be positive")
    if len(anchors) < 2:
        return Drift(len(anchors), None, None, limit)
    moves = [value / anchors[0] - 1 for value in anchors[1:]]
    return Drift(len(anchors), max(moves, key=abs), moves[-1], limit)
