"""Which step of a sweep a run of the playbook is at, told by the trace callback and by the host's files."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# In the order of a run. `canary` reaches to the end of the warm-up: then the first record is on the disk.
STEPS = (
    "request",
    "preflight",
    "open",
    "snapshot",
    "claim",
    "configure",
    "restart",
    "ready",
    "canary",
    "load",
    "evidence",
    "record",
    "restore",
    "report",
)
# Steps of one trial; a kill in one of them interrupts the item.
OF_A_TRIAL = ("configure", "restart", "ready", "canary", "load", "evidence", "record")
# What a kill is aimed at as often as any other; the rest fills up.
REQUIRED = ("preflight", *OF_A_TRIAL, "restore")

_PLAYS = {
    "Check what is asked before any host is touched": "request",
    "Look at the hosts without changing them": "preflight",
    "Open the sweep": "open",
    "Put back what ran before a sweep": "restore",
    "Report and close": "report",
}
_TASKS = {
    "Remember what is running and arm the lease": "snapshot",
    "Claim the next item": "claim",
    "Begin": "configure",
    "Restart the trial unit": "restart",
    "Wait until it serves and prove that it serves what was asked": "ready",
    "Measure every client key of this life, busiest first": "canary",
    "Evidence and record": "evidence",
    "Make the verdict and write it down": "record",
    "Put back what was running": "restore",
}


@dataclass
class Trace:
    """Follows the trace file of one run."""

    path: Path
    step: str = "request"
    task: str = ""
    began: dict[str, list[float]] = field(default_factory=dict)
    _read: int = 0

    def look(self) -> str:
        """Read what is new; the step the run is at."""
        if not self.path.exists():
            return self.step
        with self.path.open("rb") as stream:
            stream.seek(self._read)
            new = stream.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            self._take(json.loads(line))
        return self.step

    def _take(self, line: dict[str, Any]) -> None:
        self.task = line["task"] or self.task
        name = line["task"].rpartition(" : ")[2]
        step = _TASKS.get(name) if line["task"] else _PLAYS.get(line["play"])
        if step is not None and step != self.step:
            self.step = step
            self.began.setdefault(step, []).append(line["at"])


def lengths(trace: Trace, ended: float) -> dict[str, float]:
    """Seconds that each step took in a run that was left alone: the mean over its trials."""
    marks = sorted((at, step) for step, ats in trace.began.items() for at in ats)
    found: dict[str, list[float]] = {}
    for (at, step), (after, _) in zip(marks, [*marks[1:], (ended, "")], strict=True):
        found.setdefault(step, []).append(after - at)
    return {step: sum(times) / len(times) for step, times in found.items()}


def wait_for(
    trace: Trace, at: Callable[[str], bool], running: Callable[[], bool], every: float = 0.02
) -> bool:
    """Wait until the run is at a step that `at` accepts; False when it ends before."""
    while True:
        if at(trace.look()):
            return True
        if not running():
            return False
        time.sleep(every)
