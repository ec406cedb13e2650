"""What each host of a sweep does now, left in the sweep's folder for whoever watches from elsewhere.

Nothing else rests on the file: what cannot be written or read is let go.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from treeline.records import utc_now

STEPS = "steps.json"


class Step(msgspec.Struct, frozen=True):
    """What ansible-playbook does on a host: a task, and when it began (ISO 8601)."""

    task: str
    since: str


_DECODER = msgspec.json.Decoder(dict[str, Step])


def leave_steps(folder: Path, steps: Mapping[str, Step]) -> None:
    """Replace the file in a sweep folder: a step for each host."""
    part = folder / f".{STEPS}.{os.getpid()}"
    try:
        part.write_bytes(msgspec.json.encode(steps))
        part.replace(folder / STEPS)
    except OSError:
        part.unlink(missing_ok=True)


class Steps:
    """The steps of one run of ansible-playbook, left behind from the moment that it opens a sweep."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._now: dict[str, Step] = {}

    def begin(self, host: str, task: str) -> None:
        """A task begins on a host."""
        self._now[host] = Step(task, utc_now())
        if self._folder is not None:
            leave_steps(self._folder, self._now)

    def result(self, values: object) -> None:
        """A result of one of our actions; that of opening a sweep tells the folder."""
        found = values.get("sweep_dir") if isinstance(values, Mapping) else None
        if isinstance(found, str) and Path(found).is_dir():
            self._folder = Path(found)


def steps_left(folder: Path) -> dict[str, Step]:
    """The steps in a sweep folder, by host; none where nobody leaves any.

    They are those of the run that wrote them: a step that began before a trial is none of that trial's.
    """
    try:
        return _DECODER.decode((folder / STEPS).read_bytes())
    except (OSError, msgspec.DecodeError):
        return {}
