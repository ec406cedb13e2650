"""A run of any playbook as a JUnit file: one case a host and task, or a host and trial. No Ansible here.

Inside a trial its tasks belong to the trial: many of them may fail without harm, and the record alone tells
what became of it. A failure that the play goes on from (ignored, rescued) is no failed case; its line stands
in the output of the case.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from treeline.events import FailureEvent, render
from treeline.findings import BASIS_RECORD
from treeline.plain import clean, to_plain

_GOOD = "ok"
_NODE = "void"
"""Status of a trial that the node spoiled: an error of the test bed, not a failure of the configuration."""


@dataclass
class Case:
    """One task or one trial on one host."""

    suite: str
    host: str
    name: str
    began: float
    seconds: float = 0.0
    state: str = _GOOD
    """ok, failed, error or skipped."""
    type: str = ""
    message: str = ""
    text: str = ""
    notes: list[str] = field(default_factory=list)


class Cases:
    """Collects cases in the order in which they begin, and writes them."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Write to `path` in the end; `clock` gives seconds."""
        self.path = path
        self._clock = clock
        self._cases: dict[tuple[str, str], Case] = {}
        self._trials: dict[str, str] = {}

    # --- what happens ----------------------------------------------------------------------------------

    def task_begins(self, host: str, task_id: str, suite: str, name: str) -> None:
        """Take a task that starts on a host; one of a trial counts as that trial."""
        if host not in self._trials:
            self._cases.setdefault((host, task_id), Case(suite, host, name, self._clock()))

    def task_ends(self, host: str, task_id: str, *, skipped: bool = False) -> None:
        """Take a task that ended well, or was skipped."""
        case = self._cases.get((host, task_id))
        if case is not None:
            case.seconds = self._clock() - case.began
            if skipped:
                case.state = "skipped"

    def failure(self, event: FailureEvent, task_id: str) -> None:
        """Take a failed, unreachable or retried result, or a failed item."""
        suite = suite_of(event.playbook, event.play)
        key = (event.host, self._trials.get(event.host, task_id))
        case = self._cases.setdefault(key, Case(suite, event.host, event.task, self._clock()))
        case.seconds = self._clock() - case.began
        case.notes.append(render(event))
        final = event.kind in ("failed", "unreachable")
        if event.host not in self._trials and final and not event.ignored and not event.rescued:
            _fail(case, "error" if event.kind == "unreachable" else "failed", event)

    def trial_begins(self, host: str, trial_id: str, suite: str) -> None:
        """Take a trial that was claimed for a host; its tasks are no cases of their own."""
        self._trials[host] = f"trial {trial_id}"
        name = self._trials[host]
        self._cases.setdefault((host, name), Case(suite, host, name, self._clock()))

    def trial_ends(self, host: str, record: Mapping[str, Any] | None) -> None:
        """Take the record of a host's trial; without one the trial broke off, which is an error."""
        case = self._cases.get((host, self._trials.pop(host, "")))
        if case is None:
            return
        case.seconds = self._clock() - case.began
        values = to_plain(record) if record is not None else {"status": "no record"}
        status = str(values.get("status") or "no status")
        if status == _GOOD:
            return
        case.state = "error" if record is None or status == _NODE else "failed"
        case.type = str(values.get("class") or status)
        case.message = clean(f"{status} {values.get('class') or ''}".strip())
        named = [(name, values.get(name)) for name in ("status", "class", "phase", "kind", "first_error")]
        case.text = _lines([*named, ("basis", BASIS_RECORD if record is not None else None)])

    # --- the file --------------------------------------------------------------------------------------

    def write(self) -> None:
        """Write the file in one step. Raises OSError, and ImportError where junitparser is missing."""
        from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

        for host in list(self._trials):
            self.trial_ends(host, None)
        outcomes = {"failed": Failure, "error": Error, "skipped": Skipped}
        suites: dict[str, Any] = {}
        for case in self._cases.values():
            suite = suites.setdefault(case.suite, TestSuite(_xml(case.suite)))
            entry = TestCase(_xml(case.name), classname=_xml(case.host), time=round(case.seconds, 3))
            if case.state in outcomes:
                outcome = outcomes[case.state](_xml(case.message) or None, _xml(case.type) or None)
                if case.text:
                    outcome.text = _xml(case.text)
                entry.result = [outcome]
            if case.notes:
                entry.system_out = _xml("\n".join(case.notes))
            suite.add_testcase(entry)
        document = JUnitXml("treeline")
        for suite in suites.values():
            document.add_testsuite(suite)
        document.update_statistics()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            document.write(str(unfinished), pretty=True)
            unfinished.replace(self.path)
        finally:
            unfinished.unlink(missing_ok=True)


def suite_of(playbook: str, play: str) -> str:
    """Return the name of the suite of a play."""
    return f"{playbook}: {play}"


def _fail(case: Case, state: str, event: FailureEvent) -> None:
    case.state = state
    case.type = event.class_ or event.kind
    case.message = clean(event.msg)
    named: list[tuple[str, Any]] = [("class", event.class_), ("phase", event.phase), ("basis", event.basis)]
    if event.finding is not None:
        found = event.finding
        named += [("kind", found.kind), ("rank", found.rank), ("captured_bs", found.captured_bs)]
        named += [("first_error", found.first_error), ("advice", found.advice)]
    case.text = _lines([*named, ("task_path", event.task_path), ("event", event.event_id)])


def _lines(named: list[tuple[str, Any]]) -> str:
    return "\n".join(f"{name}: {clean(value)}" for name, value in named if value is not None and value != "")


def _xml(text: str) -> str:
    """Text without what XML 1.0 cannot hold."""
    return "".join(sign for sign in text if sign in "\t\n" or (sign >= " " and sign not in "\ufffe\uffff"))
