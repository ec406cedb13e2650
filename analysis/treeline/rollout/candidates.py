"""Every configuration on record, with its service lives, its figures and what speaks against it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from treeline.keys import RestartKey
from treeline.records import Finished, Measurement, Provenance
from treeline.rollout.objectives import Objective
from treeline.store import StoreError, SweepStore, sweep_folders


@dataclass(frozen=True)
class Life:
    """One finished trial with its measurements, and what it was measured with."""

    line: Finished
    points: tuple[Measurement, ...]
    provenance: Provenance
    dialect: str


@dataclass(frozen=True)
class Candidate:
    """One cell of one hardware class and engine build.

    Attributes:
        lives: its `ok` trials, the newest first.
        against: trials of the same cell that ended badly.
        value: mean of the objective over the lives that report it at ``context``; None where none does.
        values: that of each life, newest first.
        context: that of the newest point by which the cell can be compared, in tokens; None: none was set.
    """

    key: RestartKey
    provenance: Provenance
    lives: tuple[Life, ...]
    against: tuple[Life, ...]
    value: float | None
    values: tuple[float, ...]
    context: int | None = None

    @property
    def best_life(self) -> Life:
        """The newest `ok` trial, which stands for the configuration."""
        return self.lives[0]


@dataclass(frozen=True)
class Read:
    """What the results folder holds, and what of it could not be read."""

    lives: tuple[Life, ...]
    notes: tuple[str, ...]


def read(results: Path) -> Read:
    """Every finished trial of every sweep below a results folder, the newest first."""
    lives: list[Life] = []
    notes: list[str] = []
    for folder in sweep_folders(results):
        store = SweepStore(folder)
        try:
            sweep, log, measured = store.read_sweep(), store.read_trials(), store.read_measurements()
        except StoreError as error:
            notes.append(f"sweep {folder.name} is left out: {error}")
            continue
        points: dict[str, list[Measurement]] = defaultdict(list)
        for measurement in measured:
            points[measurement.trial_id].append(measurement)
        for line in log.finished.values():
            provenance = sweep.provenance.get(line.host, Provenance(hardware_class=line.hardware_class))
            lives.append(Life(line, tuple(points[line.trial_id]), provenance, sweep.dialect))
    lives.sort(key=lambda life: life.line.at, reverse=True)
    return Read(tuple(lives), tuple(notes))


def candidates(lives: Iterable[Life], objective: Objective) -> list[Candidate]:
    """Cells with at least one `ok` trial, the best value first; cells without a value come last.

    A baseline is no candidate: it is the service without speculation, to compare with.
    """
    cells: dict[tuple[str, Provenance], list[Life]] = defaultdict(list)
    for life in lives:
        if life.line.key.speculative:
            cells[life.line.cell, life.provenance].append(life)
    found = [_candidate(group, objective) for group in cells.values()]
    sign = -1 if objective.higher_is_better else 1
    return sorted(
        (one for one in found if one is not None),
        key=lambda one: (one.value is None, sign * (one.value or 0.0)),
    )


def _candidate(group: Sequence[Life], objective: Objective) -> Candidate | None:
    good = tuple(life for life in group if life.line.status == "ok")
    if not good:
        return None
    newest = next((found[1] for life in good if (found := objective.value(life.points)) is not None), None)
    context = newest.context if newest is not None else None
    # Prompts of another length are another task: their figures are not averaged with these.
    values = tuple(
        found[0]
        for life in good
        if (found := objective.value(one for one in life.points if one.context == context)) is not None
    )
    against = tuple(life for life in group if life.line.effect in ("bad", "repeat", "repeat_transient"))
    return Candidate(
        key=good[0].line.key,
        provenance=good[0].provenance,
        lives=good,
        against=against,
        value=fmean(values) if values else None,
        values=values,
        context=context,
    )
