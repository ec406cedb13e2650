"""What a run's task results mean for the log of failures. No Ansible here: the callback plugin feeds it.

The events of a trial that is under way are written at once, so that a killed controller loses none, but the
line for the user waits until the trial is on record: only then is the class known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from treeline.events import (
    EVENTS,
    EventIds,
    EventLog,
    FailureEvent,
    Kind,
    Place,
    describe,
    render,
    revise,
)


class Capture:
    """Takes task results in the order in which they arrive and keeps the log of failures."""

    def __init__(self, log: EventLog, say: Callable[[str], None]) -> None:
        """Write to `log`; `say` prints one line for the user."""
        self.log = log
        self._say = say
        self._ids = EventIds()
        self._trials: dict[str, str] = {}
        self._open: dict[str, list[FailureEvent]] = {}
        self._async_jobs: dict[tuple[str, str], str] = {}
        self._retried: set[tuple[str, str]] = set()

    def failure(self, kind: Kind, place: Place, result: Mapping[str, Any], *, task_id: str) -> None:
        """Take a failed, unreachable or retried result, or a failed loop item."""
        trial_id = self._trials.get(place.host)
        event = describe(
            kind,
            place,
            result,
            event_id=self._ids.next(),
            trial_id=trial_id,
            async_job_id=self._async_jobs.pop((place.host, task_id), None),
        )
        self.log.add(event)
        if _name(place.action) == "treeline_record":
            self._release(place.host)
        elif trial_id is not None and kind in ("failed", "unreachable"):
            self._open.setdefault(place.host, []).append(event)
            return
        if kind != "retry" or (place.host, task_id) not in self._retried:
            self._say(render(event))
        if kind == "retry":
            self._retried.add((place.host, task_id))

    def async_timeout(self, host: str, task_id: str, job_id: str | None) -> None:
        """Remember the job of an asynchronous task that failed; its result follows as an ordinary failure."""
        if job_id:
            self._async_jobs[(host, task_id)] = str(job_id)

    def success(self, action: str, host: str, result: Mapping[str, Any]) -> None:
        """Take a good result: those of the sweep's own actions say where events go and what a trial was."""
        name = _name(action)
        if name == "treeline_sweep" and result.get("sweep_dir"):
            self.log.settle(Path(str(result["sweep_dir"])) / EVENTS)
        elif name == "treeline_claim":
            self._release(host)
            self._trials.pop(host, None)
            if result.get("state") == "item" and result.get("trial_id"):
                self._trials[host] = str(result["trial_id"])
        elif name == "treeline_record" and isinstance(result.get("record"), Mapping):
            self._conclude(host, result["record"])

    def finish(self, default: Path) -> list[str]:
        """Write what still waits, to `default` where no file is known, and return what the user must know."""
        for host in list(self._open):
            self._release(host)
        if self.log.waiting or self.log.path is not None:
            self.log.settle(default)
        if not self.log.lost:
            return []
        return [f"treeline: {self.log.lost} failure events could not be written: {self.log.problem}"]

    def _conclude(self, host: str, record: Mapping[str, Any]) -> None:
        for event in self._open.pop(host, []):
            if event.trial_id != record.get("trial_id"):
                self._say(render(event))
                continue
            revised = revise(event, record, self._ids.next())
            self.log.add(revised)
            self._say(render(revised))
        self._trials.pop(host, None)

    def _release(self, host: str) -> None:
        """Print the events of a trial that never got a record."""
        for event in self._open.pop(host, []):
            self._say(render(event))


def _name(action: str) -> str:
    return action.rpartition(".")[2]
