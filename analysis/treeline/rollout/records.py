"""What is written about a rollout: ``rollout.json`` and one line for each host and run in ``hosts.jsonl``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from treeline import jsonl
from treeline.keys import RestartKey
from treeline.records import Controller, Gate, Provenance
from treeline.store import StoreError, locked

SCHEMA_VERSION = 1
FOLDER = "rollouts"
ROLLOUT = "rollout.json"
HOSTS = "hosts.jsonl"

# deployed: changed, judged good, serving. unchanged: had the configuration already. rolled_back: changed, or
# about to be, and proven to be as before. broken: neither; it needs somebody. released: the inventory's
# configuration was deployed over it, on purpose.
HostState = Literal["deployed", "unchanged", "rolled_back", "broken", "released"]
WELL: tuple[HostState, ...] = ("deployed", "unchanged")
Outcome = Literal["complete", "stopped", "incomplete"]


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """What a canary is held against: one point of the recorded row.

    ``tok_s`` has one value for each recorded service life, newest first; ``al`` and ``requests`` are those of
    the newest one's point.
    """

    concurrency: int
    context: int | None
    tok_s: tuple[float, ...]
    al: float | None = None
    requests: int = 0


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """What one hardware class gets, from which row, and why."""

    trial_id: str
    sweep_id: str
    key: RestartKey
    dialect: str
    measured: Provenance
    reference: Reference | None
    why: tuple[str, ...]
    mismatches: tuple[str, ...] = ()
    engine: str | None = None
    simulated: bool = False


class WaveLine(msgspec.Struct, frozen=True, kw_only=True):
    """Hosts that change together."""

    number: int
    hardware_class: str
    hosts: tuple[str, ...]
    canary: bool


class Run(msgspec.Struct, kw_only=True):
    """One run of the playbook over a rollout; ``ended_at`` is missing where it never closed."""

    controller: Controller
    started_at: str
    ended_at: str | None = None
    outcome: Outcome | None = None
    reason: str | None = None


class HostLine(msgspec.Struct, frozen=True, kw_only=True):
    """How one run left one host."""

    rollout_id: str
    host: str
    wave: int
    hardware_class: str
    state: HostState
    at: str
    started_at: str | None = None
    reason: str = ""
    restarted: bool = False
    before: dict[str, Any] = {}
    gates: tuple[Gate, ...] = ()
    speed: dict[str, Any] = {}
    serving: bool | None = None
    registered: bool | None = None
    simulated: bool = False
    schema_version: int = SCHEMA_VERSION


class Rollout(msgspec.Struct, kw_only=True):
    """``rollout.json``: to whom, what, why, in which order, and how it ended."""

    rollout_id: str
    config: str
    objective: str
    created_at: str
    chosen: dict[str, Chosen]
    waves: tuple[WaveLine, ...]
    hosts: dict[str, Provenance]
    options: dict[str, Any] = {}
    runs: list[Run] = []
    finished_at: str | None = None
    outcome: Outcome | None = None
    schema_version: int = SCHEMA_VERSION


_ROLLOUT = msgspec.json.Decoder(Rollout)
_LINE = msgspec.json.Decoder(HostLine)


class RolloutStore:
    """Reads and writes one rollout's folder. Every method may raise StoreError."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self) -> Rollout:
        """The rollout as its file tells it."""
        path = self.folder / ROLLOUT
        try:
            return _ROLLOUT.decode(path.read_bytes())
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror}") from error
        except msgspec.DecodeError as error:
            raise StoreError(f"{path} is no valid rollout: {error}") from error

    def write(self, rollout: Rollout) -> None:
        """Replace ``rollout.json`` in one step."""
        self.folder.mkdir(parents=True, exist_ok=True)
        data = msgspec.json.format(msgspec.json.encode(rollout), indent=1)
        jsonl.write_atomic(self.folder / ROLLOUT, data + b"\n")

    def lines(self) -> tuple[HostLine, ...]:
        """Everything recorded about hosts, oldest first."""
        path = self.folder / HOSTS
        try:
            return tuple(_LINE.decode(line) for line in jsonl.read(path).lines)
        except msgspec.DecodeError as error:
            raise StoreError(f"{path} is not understood: {error}") from error

    def append(self, line: HostLine) -> None:
        """Add one line about a host, on the disk when this returns. Hosts of a wave end at the same time."""
        with locked(self.folder):
            jsonl.append(self.folder / HOSTS, msgspec.json.encode(line))

    def latest(self) -> dict[str, HostLine]:
        """The last word on each host that has one."""
        return {line.host: line for line in self.lines()}


def rollout_folders(results: Path) -> list[Path]:
    """Folders of rollouts below a results folder, the newest first (their names begin with the time)."""
    found: Sequence[Path] = [path.parent for path in (results / FOLDER).glob(f"*/{ROLLOUT}")]
    return sorted(found, key=lambda path: path.name, reverse=True)
