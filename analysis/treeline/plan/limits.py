"""How much a sweep may cost: restarts and hours, over all of its runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from treeline.records import Run, TrialLine, seconds_between

GO_ON = "Run the same command again to go on"


@dataclass(frozen=True)
class Spend:
    """What a sweep may spend and has spent, all runs of it together; None: no limit.

    ``elsewhere`` are restarts of other hardware classes, which the history of one does not show. ``hours``
    are those in which a run was at work. ``trial_hours`` is what one more trial is expected to
    take: none is begun that would end beyond ``max_hours``.
    """

    max_restarts: int | None = None
    max_hours: float | None = None
    elsewhere: int = 0
    hours: float = 0.0
    trial_hours: float = 0.0

    @property
    def limited(self) -> bool:
        """Whether anything is limited."""
        return self.max_restarts is not None or self.max_hours is not None

    def reason_to_end(self, restarts: int) -> str | None:
        """Why no more trials are begun after so many restarts; None where one more may be."""
        begun = restarts + self.elsewhere
        if self.max_restarts is not None and begun >= self.max_restarts:
            spent = f"{begun} restarts are spent, and max_restarts={self.max_restarts} allows no more"
            return f"{spent}. {GO_ON} with a larger one"
        if self.max_hours is not None and self.hours + self.trial_hours > self.max_hours:
            spent = f"{self.hours:.1f} hours are spent, and one more trial would go beyond"
            return f"{spent} max_hours={self.max_hours:g}. {GO_ON} with a larger one"
        return None


def hours_at_work(runs: Iterable[Run], lines: Iterable[TrialLine], now: str) -> float:
    """Hours in which the runs of a sweep were at work; ``now`` (ISO 8601) ends the one that goes on.

    A run that died without closing counts until its last trial line.
    """
    stamps = sorted(line.at for line in lines)
    ordered = list(runs)
    seconds = 0.0
    for number, run in enumerate(ordered):
        end = run.ended_at
        if end is None and number == len(ordered) - 1:
            end = now
        if end is None:
            following = ordered[number + 1].started_at
            seen = (stamp for stamp in stamps if run.started_at <= stamp < following)
            end = max(seen, default=run.started_at)
        seconds += max(seconds_between(run.started_at, end), 0.0)
    return seconds / 3600
