"""What a long harness has done so far, on file, so that the next call goes on where this one stopped."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec
from harness import ROOT


class Kill(msgspec.Struct, frozen=True, kw_only=True):
    """One kill: at which step and task, how, when (seconds since the epoch), and in which trial."""

    step: str
    task: str
    mode: str
    at: float
    aimed_at: str
    trial_id: str = ""
    item_id: str = ""
    pause_s: float = 0.0
    module_outlived_s: float | None = None


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One sweep with its kills, from the first start of the command to its end, and what did not hold."""

    number: int
    kills: list[Kill]
    runs: int
    seconds: float
    broken: list[str] = []


class Ledger:
    """The rounds of all calls, one JSON line each, below a state folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._path = folder / "rounds.jsonl"

    def rounds(self) -> list[Round]:
        """All rounds that came to their end, oldest first."""
        if not self._path.exists():
            return []
        return [msgspec.json.decode(line, type=Round) for line in self._path.read_bytes().splitlines()]

    def add(self, done: Round) -> None:
        """Add a round that came to its end and was checked."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as stream:
            stream.write(msgspec.json.encode(done) + b"\n")
            stream.flush()
            os.fsync(stream.fileno())

    def next_number(self) -> int:
        """Number of the next round."""
        return max((done.number for done in self.rounds()), default=0) + 1


def by_step(rounds: Iterable[Round]) -> Counter[str]:
    """How many kills there were at each step."""
    return Counter(kill.step for done in rounds for kill in done.kills)


def state_folder() -> Path:
    """TREELINE_LONG_STATE, else a folder in the checkout's cache that git ignores."""
    return Path(os.environ.get("TREELINE_LONG_STATE") or ROOT / ".cache/long")


def number(name: str, default: float) -> float:
    """A number from the environment."""
    return float(os.environ.get(name) or default)
