"""What a run's task results mean for the log of failures. No Ansible here: the callback plugin feeds it.

The events of a trial that is under way are written at once, so that a killed controller loses none, but the
line for the user waits until the trial is on record: only then is the class known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

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
from treeline.findings import UNKNOWN, in_journal, journal_of
from treeline.junit_cases import Cases, suite_of
from treeline.plain import to_plain

_SAYS_WHAT_WAS_FOUND = ("ansible.builtin.fail", "ansible.builtin.assert", "fail", "assert")
"""Actions that only say what an earlier task found: the journal that this task returned explains them."""


class Capture:
    """Takes task results in the order in which they arrive and keeps the log of failures."""

    def __init__(self, log: EventLog, say: Callable[[str], None], cases: Cases | None = None) -> None:
        """Write to `log`; `say` prints one line for the user; `cases` is filled for a JUnit file."""
        self.log = log
        self._say = say
        self._cases = cases
        self._journals: dict[str, tuple[str, list[bytes]]] = {}
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
        event = self._explained(event)
        self.log.add(event)
        if self._cases is not None:
            self._cases.failure(event, task_id)
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

    def begin(self, host: str, task_id: str, place: Place) -> None:
        """Take a task that starts on a host."""
        if self._cases is not None:
            self._cases.task_begins(host, task_id, suite_of(place.playbook, place.play), place.task)

    def end(self, host: str, task_id: str, *, skipped: bool = False) -> None:
        """Take a task that ended well on a host, or was skipped."""
        if self._cases is not None:
            self._cases.task_ends(host, task_id, skipped=skipped)

    def success(self, action: str, host: str, result: Mapping[str, Any], place: Place | None = None) -> None:
        """Take a good result: those of our own actions say where events go, what a trial was, what is ill."""
        name = _name(action)
        if name == "treeline_sweep" and result.get("sweep_dir"):
            self.log.settle(Path(str(result["sweep_dir"])) / EVENTS)
        elif name == "treeline_claim":
            self._release(host)
            self._trial_ends(host, None)
            if result.get("state") == "item" and result.get("trial_id"):
                self._trials[host] = str(result["trial_id"])
                if self._cases is not None and place is not None:
                    suite = suite_of(place.playbook, place.play)
                    self._cases.trial_begins(host, self._trials[host], suite)
        elif name == "treeline_health":
            self._remember(host, result, place.task if place else name)
        elif name == "treeline_record" and isinstance(result.get("record"), Mapping):
            self._conclude(host, result["record"])

    def finish(self, default: Path) -> list[str]:
        """Write what still waits, to `default` where no file is known, and return what the user must know."""
        for host in list(self._open):
            self._release(host)
        if self.log.waiting or self.log.path is not None:
            self.log.settle(default)
        said = []
        if self.log.lost:
            said.append(f"treeline: {self.log.lost} failure events could not be written: {self.log.problem}")
        if self._cases is not None:
            try:
                self._cases.write()
            except (OSError, ImportError) as error:
                said.append(f"treeline: the JUnit file {self._cases.path} was not written: {error}")
        return said

    def _conclude(self, host: str, record: Mapping[str, Any]) -> None:
        for event in self._open.pop(host, []):
            if event.trial_id != record.get("trial_id"):
                self._say(render(event))
                continue
            revised = revise(event, record, self._ids.next())
            self.log.add(revised)
            self._say(render(revised))
        self._trial_ends(host, record)

    def _trial_ends(self, host: str, record: Mapping[str, Any] | None) -> None:
        if self._trials.pop(host, None) is not None and self._cases is not None:
            self._cases.trial_ends(host, record)

    def _remember(self, host: str, result: Mapping[str, Any], task: str) -> None:
        """Keep the journal of a service found ill, for the task that will say so; a good one clears it."""
        lines = None if result.get("healthy", True) else journal_of(to_plain(result))
        if lines is None:
            self._journals.pop(host, None)
        else:
            self._journals[host] = (task, lines)

    def _explained(self, event: FailureEvent) -> FailureEvent:
        """Give an event without a known class that of the journal which an earlier task returned."""
        ours = _name(event.action).startswith("treeline_")
        if event.class_ != UNKNOWN or not (ours or event.action in _SAYS_WHAT_WAS_FOUND):
            return event
        task, lines = self._journals.get(event.host, ("", []))
        found = in_journal(lines) if lines else None
        if found is None:
            return event
        return msgspec.structs.replace(
            event,
            class_=found.class_,
            phase=found.phase,
            finding=found,
            basis=f"journal lines that task '{task}' returned",
        )

    def _release(self, host: str) -> None:
        """Print the events of a trial that never got a record."""
        for event in self._open.pop(host, []):
            self._say(render(event))


def _name(action: str) -> str:
    return action.rpartition(".")[2]
