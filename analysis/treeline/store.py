"""One sweep's folder: the only place where trials, measurements and the sweep itself are written.

``trials.jsonl`` is the truth about trials; ``sweep.json`` says what the sweep is and which runs worked on
it. Reading needs no lock. Writing takes the folder's lock; a claim holds it from reading to appending.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec
from filelock import FileLock, Timeout

from treeline import jsonl
from treeline.jsonl import StoreError
from treeline.records import Finished, Measurement, Started, Sweep, TrialLine

__all__ = ["StoreError", "SweepStore", "TrialLog", "locked", "sweep_folders"]

TRIALS = "trials.jsonl"
MEASUREMENTS = "measurements.jsonl"
SWEEP = "sweep.json"
LOCK = ".lock"
LOCK_TIMEOUT_S = 60.0

_ENCODER = msgspec.json.Encoder()
_TRIAL = msgspec.json.Decoder(TrialLine)
_MEASUREMENT = msgspec.json.Decoder(Measurement)
_SWEEP = msgspec.json.Decoder(Sweep)

Record = TypeVar("Record")


@dataclass(frozen=True)
class TrialLog:
    """``trials.jsonl`` as read: its lines in the order in which they were written."""

    lines: tuple[TrialLine, ...] = ()
    torn_bytes: int = 0
    started: dict[str, Started] = field(default_factory=dict)
    finished: dict[str, Finished] = field(default_factory=dict)

    @classmethod
    def of(cls, lines: tuple[TrialLine, ...], torn_bytes: int = 0) -> TrialLog:
        """Index the lines by trial id."""
        started = {line.trial_id: line for line in lines if isinstance(line, Started)}
        finished = {line.trial_id: line for line in lines if isinstance(line, Finished)}
        return cls(lines, torn_bytes, started, finished)

    @property
    def unfinished(self) -> tuple[Started, ...]:
        """Claims without a verdict: in flight while their controller lives, else interrupted."""
        return tuple(line for trial_id, line in self.started.items() if trial_id not in self.finished)

    def hardware_classes(self, sweep: Sweep) -> list[str]:
        """Classes whose plan is owed: those that ran trials, and those of reached hosts that ran none."""
        worked = {line.host for line in self.started.values()}
        idle = (entry.hardware_class for host, entry in sweep.provenance.items() if host not in worked)
        ran = (line.hardware_class for line in self.started.values())
        return list(dict.fromkeys([*ran, *(name for name in idle if name)]))

    @property
    def next_seq(self) -> int:
        """Number of the next trial, 1 for the first."""
        return max((line.seq for line in self.started.values()), default=0) + 1


@contextmanager
def locked(folder: Path, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
    """Hold the lock of a folder. The kernel frees it when its holder dies.

    Raises:
        StoreError: another process keeps it for longer than ``timeout_s``, or it cannot be made.
    """
    path = folder / LOCK
    lock = FileLock(path)
    try:
        lock.acquire(timeout=timeout_s)
    except Timeout:
        raise StoreError(
            f"{path} is held by another process for more than {timeout_s:g} s; is a second run working here?"
        ) from None
    except OSError as error:
        raise StoreError(f"{path} cannot be locked: {error.strerror or error}") from error
    try:
        yield
    finally:
        lock.release()


def sweep_folders(results: Path) -> list[Path]:
    """Folders under ``results`` that hold a sweep, the newest first (their names begin with the time)."""
    if not results.is_dir():
        return []
    return sorted(
        (path.parent for path in results.glob(f"*/{SWEEP}")), key=lambda path: path.name, reverse=True
    )


class SweepStore:
    """Reads and writes one sweep folder. Every method may raise StoreError."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.trials_path = folder / TRIALS
        self.measurements_path = folder / MEASUREMENTS
        self.sweep_path = folder / SWEEP

    @contextmanager
    def lock(self, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
        """Hold the folder's lock; needed around every ``append_*`` and ``write_sweep``."""
        with locked(self.folder, timeout_s):
            yield

    def read_sweep(self) -> Sweep:
        """The sweep as ``sweep.json`` tells it."""
        try:
            return _SWEEP.decode(self.sweep_path.read_bytes())
        except OSError as error:
            raise StoreError(f"{self.sweep_path} cannot be read: {error.strerror}") from error
        except msgspec.DecodeError as error:
            raise StoreError(f"{self.sweep_path} is no valid sweep: {error}") from error

    def write_sweep(self, sweep: Sweep) -> None:
        """Replace ``sweep.json`` in one step."""
        data = _checked(_SWEEP, sweep, self.sweep_path)
        jsonl.write_atomic(self.sweep_path, msgspec.json.format(data, indent=1) + b"\n")

    def read_trials(self) -> TrialLog:
        """All trial lines; a torn last line is left out and counted in ``torn_bytes``."""
        read = jsonl.read(self.trials_path)
        return TrialLog.of(_decoded(_TRIAL, read.lines, self.trials_path), read.torn_bytes)

    def read_measurements(self) -> tuple[Measurement, ...]:
        """All measurement lines, those of interrupted trials too."""
        return _decoded(_MEASUREMENT, jsonl.read(self.measurements_path).lines, self.measurements_path)

    def append_trial(self, line: TrialLine) -> Path | None:
        """Add one trial line, on the disk when this returns; see ``jsonl.append`` for what it returns."""
        return jsonl.append(self.trials_path, _checked(_TRIAL, line, self.trials_path))

    def append_measurement(self, line: Measurement) -> Path | None:
        """Add one measurement line, on the disk when this returns."""
        return jsonl.append(self.measurements_path, _checked(_MEASUREMENT, line, self.measurements_path))


def _decoded(
    decoder: msgspec.json.Decoder[Record], lines: tuple[bytes, ...], path: Path
) -> tuple[Record, ...]:
    records = []
    for number, line in enumerate(lines, 1):
        try:
            records.append(decoder.decode(line))
        except msgspec.DecodeError as error:
            raise StoreError(f"{path}: line {number} is not understood: {error}") from error
    return tuple(records)


def _checked(decoder: msgspec.json.Decoder[Record], record: Record, path: Path) -> bytes:
    """Encode a record and make sure that it reads back: what is not valid is not written."""
    try:
        data = _ENCODER.encode(record)
        if decoder.decode(data) != record:
            raise StoreError(f"{path}: a record would not read back as it was written")
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise StoreError(f"{path}: a record is not valid and was not written: {error}") from error
    return data
