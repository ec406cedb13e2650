"""Begin a rollout, or go on with the one that was stopped; and close it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from treeline.controller import liveness
from treeline.keys import RestartKey
from treeline.records import Controller, Provenance, utc_now
from treeline.rollout import candidates, choose, waves
from treeline.rollout.errors import RolloutRefusedError
from treeline.rollout.records import (
    FOLDER,
    WELL,
    Chosen,
    Outcome,
    Reference,
    Rollout,
    RolloutStore,
    Run,
    WaveLine,
    rollout_folders,
)
from treeline.store import StoreError, locked


@dataclass(frozen=True)
class Opened:
    """The rollout that this run works on, and remarks for the user.

    ``unjudged`` names hosts that an earlier run of it may have changed without coming to a verdict.
    """

    rollout: Rollout
    folder: Path
    resumed: bool
    notes: tuple[str, ...]
    unjudged: tuple[str, ...] = ()


def open_rollout(
    results: Path,
    asked: choose.Asked,
    sizes: str,
    hosts: Mapping[str, Provenance],
    me: Controller,
    options: Mapping[str, Any] | None = None,
) -> Opened:
    """Choose what each hardware class gets, and record it; nothing on a host has changed yet.

    The same command goes on with the newest incomplete rollout that gives the same hosts the same rows.

    Raises:
        RolloutRefusedError: see ``choose``; or another living controller rolls out from this results folder.
        StoreError: the results folder cannot be read or written.
    """
    new, notes = _new(results, asked, sizes, hosts, options or {})
    folder = results / FOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{folder} cannot be made: {error.strerror}") from error
    with locked(folder):
        _refuse_if_alive(results, me)
        found = _unfinished(results, new.chosen, hosts)
        store, rollout = found or (RolloutStore(folder / new.rollout_id), new)
        rollout.runs.append(Run(controller=me, started_at=utc_now()))
        rollout.outcome = None
        store.write(rollout)
    latest = store.latest() if found else {}
    unjudged = tuple(
        host for host in hosts if found and (host not in latest or latest[host].state not in WELL)
    )
    return Opened(rollout, store.folder, found is not None, notes, unjudged)


def preview(results: Path, asked: choose.Asked, sizes: str, hosts: Mapping[str, Provenance]) -> Opened:
    """What ``open_rollout`` would begin, without writing anything. Raises RolloutRefusedError."""
    new, notes = _new(results, asked, sizes, hosts, {})
    return Opened(new, results / FOLDER / new.rollout_id, False, notes)


def _new(
    results: Path,
    asked: choose.Asked,
    sizes: str,
    hosts: Mapping[str, Provenance],
    options: Mapping[str, Any],
) -> tuple[Rollout, tuple[str, ...]]:
    read = candidates.read(results)
    picked = choose.choose(read.lives, hosts, asked)
    chosen = {name: _chosen(choice, asked) for name, choice in picked.items()}
    classes: dict[str, list[str]] = {}
    for host, provenance in hosts.items():
        classes.setdefault(provenance.hardware_class, []).append(host)
    ordered = tuple(
        WaveLine(number=wave.number, hardware_class=wave.hardware_class, hosts=wave.hosts, canary=wave.canary)
        for wave in waves.plan(classes, waves.parse_sizes(sizes))
    )
    rollout = Rollout(
        rollout_id=_new_id(chosen, hosts),
        config=asked.config,
        objective=str(asked.objective),
        created_at=utc_now(),
        chosen=chosen,
        waves=ordered,
        hosts=dict(hosts),
        options=dict(options),
    )
    return rollout, read.notes


def close_rollout(store: RolloutStore, me: Controller) -> tuple[Outcome, str]:
    """Write how this run ended, by what is on record about its hosts; safe to call more than once."""
    with locked(store.folder.parent):
        rollout, latest = store.read(), store.latest()
        run = next((one for one in reversed(rollout.runs) if one.controller == me), None)
        since = run.started_at if run is not None else ""
        told = {host: line for host, line in latest.items() if line.at >= since}
        turns = [host for wave in rollout.waves for host in wave.hosts]
        good = [host for host in turns if host in told and told[host].state in WELL]
        bad = [host for host in turns if host in told and told[host].state not in WELL]
        missing = [host for host in turns if host not in told]
        outcome: Outcome = "complete" if not bad and not missing else "stopped" if bad else "incomplete"
        reason = _reason(good, bad, missing)
        if run is not None:
            run.ended_at, run.outcome, run.reason = utc_now(), outcome, reason
        rollout.outcome = outcome
        rollout.finished_at = utc_now() if outcome == "complete" else None
        store.write(rollout)
    return outcome, reason


def _reason(good: list[str], bad: list[str], missing: list[str]) -> str:
    parts = [f"{len(good)} host(s) have the configuration"]
    if bad:
        parts.append(f"not {', '.join(bad)}")
    if missing:
        parts.append(f"not touched: {', '.join(missing)}")
    return "; ".join(parts)


def _chosen(choice: choose.Choice, asked: choose.Asked) -> Chosen:
    life = choice.candidate.best_life
    return Chosen(
        trial_id=life.line.trial_id,
        sweep_id=life.line.sweep_id,
        key=choice.candidate.key,
        dialect=life.dialect,
        measured=choice.candidate.provenance,
        reference=_reference(choice.candidate, asked),
        why=choice.why,
        mismatches=choice.mismatches,
        engine=life.line.engine,
        simulated=life.line.simulated,
    )


def _reference(candidate: candidates.Candidate, asked: choose.Asked) -> Reference | None:
    """The point by which the row was chosen, else its busiest one, with one value for each life."""
    newest = candidate.best_life
    found = asked.objective.value(newest.points)
    point = found[1] if found else max(newest.points, key=lambda one: one.concurrency, default=None)
    if point is None:
        return None
    same = [
        one.output_tok_s
        for life in candidate.lives
        for one in life.points
        if (one.concurrency, one.context, one.repeat) == (point.concurrency, point.context, point.repeat)
        and one.output_tok_s
    ]
    return Reference(
        concurrency=point.concurrency,
        context=point.context,
        tok_s=tuple(same),
        al=point.al,
        requests=point.requests,
    )


def _unfinished(
    results: Path, chosen: Mapping[str, Chosen], hosts: Mapping[str, Provenance]
) -> tuple[RolloutStore, Rollout] | None:
    for folder in rollout_folders(results):
        store = RolloutStore(folder)
        rollout = store.read()
        if rollout.outcome == "complete":
            # An older one has been overtaken on these hosts; one of other hosts says nothing about them.
            if set(rollout.hosts) & set(hosts):
                return None
            continue
        if _given(rollout.chosen) == _given(chosen) and set(rollout.hosts) == set(hosts):
            return store, rollout
    return None


def _given(chosen: Mapping[str, Chosen]) -> dict[str, tuple[RestartKey, str, Provenance]]:
    """What each class gets and on which claim: after an upgrade the same key is another row."""
    return {name: (one.key, one.dialect, one.measured) for name, one in chosen.items()}


def _refuse_if_alive(results: Path, me: Controller) -> None:
    for folder in rollout_folders(results)[:5]:
        for run in RolloutStore(folder).read().runs:
            if run.ended_at is None and run.controller != me and liveness(run.controller) == "alive":
                raise RolloutRefusedError(
                    f"rollout {folder.name} is being run by {run.controller}. Wait for it to end, or stop "
                    "that process and run the same command again"
                )


def _new_id(chosen: Mapping[str, Chosen], hosts: Mapping[str, Provenance]) -> str:
    content = msgspec.json.encode(
        [sorted((name, one.trial_id) for name, one in chosen.items()), sorted(hosts)]
    )
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    return f"{stamp}-{hashlib.sha256(content).hexdigest()[:8]}"
