"""The crash memory: what earlier sweeps saw of the same hardware class, engine build and model.

``results/memory.jsonl`` holds one line for each verdict that is worth remembering. A line counts only where
its whole key is equal (hardware class, engine, build, model, driver, dialect and restart key), so any change
of these expires it; a later line about the same key replaces an earlier one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from treeline import baselines, jsonl
from treeline import plan as planner
from treeline.keys import Known, Plan, RestartKey
from treeline.plain import clean
from treeline.plan import History
from treeline.records import SCHEMA_VERSION, Finished, Provenance, Sweep, utc_now
from treeline.store import StoreError, TrialLog, locked

MEMORY = "memory.jsonl"


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What a verdict holds for, besides its restart key. Equal or not; nothing is compared in parts."""

    hardware_class: str
    engine: str | None
    engine_build: str
    model: str
    driver: str | None
    dialect: str


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """One line: a cell that is known to be bad, or that was seen to work after all."""

    identity: Identity
    key: RestartKey
    outcome: Literal["bad", "good"]
    status: str
    at: str
    sweep_id: str
    trial_id: str
    class_: str | None = msgspec.field(default=None, name="class")
    phase: str | None = None
    first_error: str | None = None
    schema_version: int = SCHEMA_VERSION

    @property
    def words(self) -> str:
        """Why it is known, for people."""
        cause = f" {self.class_}" if self.class_ else ""
        where = f" in {self.phase}" if self.phase else ""
        return f"{self.status}{cause}{where} on {self.at[:10]} (trial {self.trial_id}), by the crash memory"


_DECODER = msgspec.json.Decoder(Memory)


def identity_of(entry: Provenance, dialect: str) -> Identity | None:
    """The identity of a host; None where its build or model is not known, because that cannot be compared."""
    if not entry.hardware_class or not entry.engine_build or not entry.model:
        return None
    return Identity(
        hardware_class=entry.hardware_class,
        engine=entry.engine,
        engine_build=entry.engine_build,
        model=entry.model,
        driver=entry.driver,
        dialect=dialect,
    )


def known_of(
    results: Path, plan: Plan, dialect: str, hosts: Mapping[str, Provenance], *, use_memory: bool
) -> dict[str, Known]:
    """What each hardware class brings along for this plan, by hardware class.

    Args:
        hosts: provenance by host, as preflight found it.
        use_memory: whether known crashes are to be skipped; the baseline is looked for in any case where the
            plan has one.

    Raises:
        StoreError: the memory cannot be read.
    """
    lines = read(results) if use_memory else ()
    found: dict[str, Known] = {}
    for entry in hosts.values():
        if not entry.hardware_class or entry.hardware_class in found:
            continue
        identity = identity_of(entry, dialect)
        told = recall(lines, identity).values() if identity is not None else ()
        found[entry.hardware_class] = Known(
            bad={line.key.slug: line.words for line in told if line.outcome == "bad"},
            baseline=_baseline(results, entry) if plan.baseline is not None else None,
        )
    return found


def _baseline(results: Path, entry: Provenance) -> str | None:
    """Where the stored baseline comes from; one that cannot be read is measured again."""
    try:
        stored = baselines.find(results, entry)
    except baselines.BaselineError:
        return None
    return f"{stored.sweep_id}/{stored.trial_id}" if stored is not None else None


def read(results: Path) -> tuple[Memory, ...]:
    """Every line of the memory, in order; a torn last one is left out. Raises StoreError."""
    path = results / MEMORY
    try:
        return tuple(_DECODER.decode(line) for line in jsonl.read(path).lines)
    except msgspec.DecodeError as error:
        raise StoreError(f"{path} is not understood: {error}") from error


def recall(lines: Iterable[Memory], identity: Identity) -> dict[RestartKey, Memory]:
    """The last line about each restart key under exactly this identity."""
    return {line.key: line for line in lines if line.identity == identity}


def remember(results: Path, sweep: Sweep, log: TrialLog) -> list[Memory]:
    """Note what a sweep learned: cells that are bad for certain, and known ones that turned out to work.

    Returns the lines that were added; what the memory says already is not said twice.

    Raises:
        StoreError: the memory cannot be read or written.
    """
    learned = list(_learned(sweep, log))
    added = []
    with locked(results):
        known = {(line.identity, line.key): line.outcome for line in read(results)}
        for line in learned:
            before = known.get((line.identity, line.key))
            if before == line.outcome or (before is None and line.outcome == "good"):
                continue
            jsonl.append(results / MEMORY, msgspec.json.encode(line))
            known[line.identity, line.key] = line.outcome
            added.append(line)
    return added


def _learned(sweep: Sweep, log: TrialLog) -> Iterable[Memory]:
    for name in dict.fromkeys(line.hardware_class for line in log.started.values()):
        history = History.of(log, name, this_run=lambda _: True, in_flight=lambda _: False)
        known = sweep.known_of(name)
        cells = planner.cells(sweep.plan, history.past, known)
        for line in log.finished.values():
            cell = cells.get(line.cell)
            entry = sweep.provenance.get(line.host)
            identity = identity_of(entry, sweep.dialect) if entry is not None else None
            if line.hardware_class != name or cell is None or identity is None:
                continue
            if cell.state == "bad" and cell.closes and line.effect in ("bad", "repeat"):
                yield _memory(line, identity, "bad")
            elif cell.state in ("good", "mixed") and line.effect == "good":
                yield _memory(line, identity, "good")


def _memory(line: Finished, identity: Identity, outcome: Literal["bad", "good"]) -> Memory:
    return Memory(
        identity=identity,
        key=line.key,
        outcome=outcome,
        status=line.status,
        at=utc_now(),
        sweep_id=line.sweep_id,
        trial_id=line.trial_id,
        class_=line.class_,
        phase=line.phase,
        first_error=clean(line.first_error, 300) if line.first_error else None,
    )
