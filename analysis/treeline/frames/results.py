"""Everything that analysis looks at, read once: the sweeps below some paths."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from treeline.frames.cells import cells
from treeline.frames.events import events
from treeline.frames.folders import find
from treeline.frames.measurements import measurements
from treeline.frames.trials import of_logs
from treeline.records import Sweep
from treeline.store import StoreError, SweepStore, TrialLog


@dataclass(frozen=True)
class Results:
    """Frames of one or many sweeps, and what could not be read.

    Attributes:
        asked: the paths that were looked at.
        folders: the sweep folders that were read, the oldest first.
        logs: their sweeps with their trial logs.
        notes: a sentence for each sweep that was left out.
    """

    asked: tuple[Path, ...]
    folders: tuple[Path, ...]
    logs: tuple[tuple[Sweep, TrialLog], ...]
    trials: pd.DataFrame
    measurements: pd.DataFrame
    cells: pd.DataFrame
    events: pd.DataFrame
    notes: tuple[str, ...] = ()

    @property
    def sweeps(self) -> tuple[Sweep, ...]:
        """The sweeps that were read, in the order of their folders."""
        return tuple(sweep for sweep, _ in self.logs)

    @property
    def simulated(self) -> bool:
        """Whether any figure is one of simulated timing."""
        return bool(self.trials["simulated"].any() or self.measurements["simulated"].any())

    @property
    def sentence(self) -> str:
        """What there is, for people; says so where there is nothing."""
        where = ", ".join(map(str, self.asked))
        if not self.folders:
            found = f"No sweep was found in {where}. Run one (make sweep), or name another folder."
        elif self.trials.empty:
            found = f"{_many(len(self.folders), 'sweep')} in {where}, but no trial was begun yet."
        else:
            hosts = self.trials["host"].nunique()
            found = (
                f"{_many(len(self.folders), 'sweep')} with {_many(len(self.trials), 'trial')} on "
                f"{_many(hosts, 'host')} and {_many(len(self.measurements), 'measurement')}."
            )
            found += " Timing is simulated: tok/s says nothing about any GPU." if self.simulated else ""
        return " ".join([found, *self.notes])

    def _repr_markdown_(self) -> str:
        return self.sentence


def read(*paths: Path | str) -> Results:
    """Read the sweeps below paths (sweep folders, or folders of such). A sweep that cannot be read is noted.

    Raises:
        StoreError: measurements or events of a readable sweep are damaged.
    """
    asked = tuple(Path(path) for path in paths)
    folders: list[Path] = []
    logs: list[tuple[Sweep, TrialLog]] = []
    notes: list[str] = []
    for folder in find(asked):
        store = SweepStore(folder)
        try:
            sweep = store.read_sweep()
            if any(other.sweep_id == sweep.sweep_id for other, _ in logs):
                notes.append(f"{folder} holds sweep {sweep.sweep_id} once more and is left out.")
                continue
            logs.append((sweep, store.read_trials()))
            folders.append(folder)
        except StoreError as error:
            notes.append(f"Sweep {folder.name} is left out: {error}.")
    trials = of_logs(logs)
    return Results(
        asked=asked,
        folders=tuple(folders),
        logs=tuple(logs),
        trials=trials,
        measurements=measurements(folders),
        cells=cells(logs, trials),
        events=_events(folders),
        notes=tuple(notes),
    )


def _events(folders: Iterable[Path]) -> pd.DataFrame:
    try:
        return events(folders)
    except StoreError:
        return events([])  # the log of failures decides nothing; a damaged one must not cost the rest


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
