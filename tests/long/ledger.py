"""What a long harness has done so far, on file, so that the next call goes on where this one stopped.

What was done with other sources does not count: each digest of them has a folder of its own.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec
from harness import ROOT, digest


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

    @property
    def sound(self) -> bool:
        """Whether it had a kill and everything held: only then it counts towards what is wanted."""
        return bool(self.kills) and not self.broken


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

    def place(self, number: int) -> Path:
        """Where a round that begins has its results; what an interrupted call left of it is removed."""
        folder = self.folder / f"round-{number}"
        shutil.rmtree(folder, ignore_errors=True)
        return folder

    def sound(self) -> list[Round]:
        """The rounds in which everything held."""
        return [done for done in self.rounds() if done.sound]

    def check(self) -> None:
        """Fail when any round broke something, in this call or an earlier one."""
        broken = [f"round {done.number}: {sentence}" for done in self.rounds() for sentence in done.broken]
        assert not broken, "\n".join([*broken, f"(on record in {self.folder}; remove it to begin anew)"])


def by_step(rounds: Iterable[Round]) -> Counter[str]:
    """How many kills there were at each step."""
    return Counter(kill.step for done in rounds for kill in done.kills)


def state_folder() -> Path:
    """A folder for these sources below TREELINE_LONG_STATE, else below the checkout's cache."""
    return Path(os.environ.get("TREELINE_LONG_STATE") or ROOT / ".cache/long") / digest()[:12]
