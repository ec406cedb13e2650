"""Opening a sweep: which folder a run of the playbook works in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from treeline import memory, provenance
from treeline.controller import liveness
from treeline.jsonl import sync_directory
from treeline.keys import Plan
from treeline.records import Controller, HostState, Provenance, Run, Sweep, utc_now
from treeline.store import StoreError, SweepStore, TrialLog, locked, sweep_folders


class SweepRefusedError(Exception):
    """This run may not work now; the message names who holds what, and what to do."""


@dataclass(frozen=True)
class Request:
    """What is to be run; the fields stand in ``sweep.json`` as they are here."""

    plan: Plan
    plan_hash: str
    dialect: str
    variables: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Opened:
    """The folder this run works in. ``notes`` say why, and what an earlier run left behind."""

    sweep_id: str
    folder: Path
    resumed: bool
    reason: str
    notes: tuple[str, ...]
    interrupted: tuple[str, ...]
    stale_leases: dict[str, dict[str, Any]]


def open_sweep(
    results: Path, request: Request, preflights: Mapping[str, Mapping[str, Any]], me: Controller
) -> Opened:
    """Resume the newest unfinished sweep of this plan with this provenance, or start a new one.

    A sweep whose plan is complete is unfinished as long as it owes a host what ran there before.

    Raises:
        SweepRefusedError: another living controller works on it or holds a host, or hosts of one hardware
            class differ.
        StoreError: the results folder cannot be read or written.
    """
    hosts = {host: provenance.of_host(found) for host, found in preflights.items()}
    found_leases = {host: provenance.lease_of(found) for host, found in preflights.items()}
    leases = {host: lease for host, lease in found_leases.items() if lease is not None}
    if clashes := provenance.clashes(hosts):
        raise SweepRefusedError(
            "; ".join(clashes) + ". Give such hosts different values of treeline_hardware_class"
        )
    try:
        results.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{results} cannot be made: {error.strerror}") from error
    with locked(results):
        notes: list[str] = []
        candidate = _unfinished(results, request.plan_hash, hosts, me, notes)
        if held := provenance.foreign_leases(leases, me):
            raise SweepRefusedError(
                "; ".join(held)
                + ". Wait for it to end, or leave the host out: --limit 'sglang,localhost,!HOST'"
            )
        stale = provenance.stale_leases(leases, me)
        if candidate is None:
            return _begin(results, request, hosts, me, notes, stale)
        return _resume(*candidate, request, hosts, me, notes, stale, _owed(candidate[1], preflights))


def _unfinished(
    results: Path, plan_hash: str, hosts: Mapping[str, Provenance], me: Controller, notes: list[str]
) -> tuple[SweepStore, Sweep, TrialLog] | None:
    for folder in sweep_folders(results):
        if not folder.name.endswith(f"-{plan_hash}"):
            continue
        store = SweepStore(folder)
        try:
            sweep, log = store.read_sweep(), store.read_trials()
        except StoreError as error:
            notes.append(f"sweep {folder.name} is left alone: {error}")
            continue
        if sweep.finished_at is not None:
            continue
        _refuse_if_alive(sweep, log, me)
        changes = provenance.differences(sweep.provenance, hosts)
        if changes:
            notes.append(f"sweep {sweep.sweep_id} is unfinished but not resumed: {'; '.join(changes)}")
            continue
        return store, sweep, log
    return None


def _owed(sweep: Sweep, preflights: Mapping[str, Mapping[str, Any]]) -> dict[str, HostState]:
    """Hosts of this run that the run before left owed, as far as preflight did not find them put back.

    A host that has no snapshot any more was restored meanwhile, by its lease or by restore.yml.
    """
    before = (sweep.runs[-1].hosts if sweep.runs else None) or {}
    return {
        host: state
        for host, state in before.items()
        if state.owed and host in preflights and preflights[host].get("snapshot_present", "") is not None
    }


def _refuse_if_alive(sweep: Sweep, log: TrialLog, me: Controller) -> None:
    working = [run.controller for run in sweep.runs if run.ended_at is None]
    for controller in [*working, *(line.controller for line in log.unfinished)]:
        if controller != me and liveness(controller) == "alive":
            raise SweepRefusedError(
                f"sweep {sweep.sweep_id} is being run by {controller}. Wait for it to end, or stop that "
                "process and run the same command again to go on with the sweep"
            )


def _begin(
    results: Path,
    request: Request,
    hosts: Mapping[str, Provenance],
    me: Controller,
    notes: list[str],
    stale: dict[str, dict[str, Any]],
) -> Opened:
    now = utc_now()
    stamp = now[:19].replace("-", "").replace(":", "")
    sweep_id = f"{stamp}Z-{request.plan_hash}"
    folder = results / sweep_id
    try:
        folder.mkdir()
        sync_directory(results)
    except FileExistsError:
        raise SweepRefusedError(f"{folder} was made within this second; run the same command again") from None
    except OSError as error:
        raise StoreError(f"{folder} cannot be made: {error.strerror}") from error
    store = SweepStore(folder)
    with store.lock():
        store.write_sweep(
            Sweep(
                sweep_id=sweep_id,
                plan_hash=request.plan_hash,
                plan=request.plan,
                dialect=request.dialect,
                created_at=now,
                variables=request.variables,
                options=request.options,
                provenance=dict(hosts),
                known=memory.known_of(
                    results,
                    request.plan,
                    request.dialect,
                    hosts,
                    use_memory=bool(request.options.get("use_memory")),
                ),
                runs=[Run(controller=me, started_at=now, notes=notes)],
            )
        )
    reason = "no unfinished sweep of this plan on these hosts was found"
    return Opened(sweep_id, folder, False, reason, tuple(notes), (), stale)


def _resume(
    store: SweepStore,
    sweep: Sweep,
    log: TrialLog,
    request: Request,
    hosts: Mapping[str, Provenance],
    me: Controller,
    notes: list[str],
    stale: dict[str, dict[str, Any]],
    owed: dict[str, HostState],
) -> Opened:
    lost = log.unfinished
    if log.torn_bytes:
        notes.append(
            f"{log.torn_bytes} bytes of a line that was never finished are set aside in {store.folder}"
        )
    notes += [
        f"trial {line.trial_id} ({line.item_id} on {line.host}) was interrupted: it is run again"
        for line in lost
    ]
    sweep.options, sweep.variables = request.options, request.variables
    sweep.provenance |= {host: entry for host, entry in hosts.items() if entry != Provenance()}
    sweep.runs.append(Run(controller=me, started_at=utc_now(), notes=notes, hosts=owed or None))
    complete, sweep.outcome = sweep.outcome == "complete", None
    with store.lock():
        store.write_sweep(sweep)
    reason = f"it is unfinished: {len(log.finished)} trials are on record"
    if complete:
        to_whom = f" to {', '.join(owed)}" if owed else ""
        reason = f"its plan is complete, but it still owed what ran before{to_whom}"
    interrupted = tuple(line.trial_id for line in lost)
    return Opened(sweep.sweep_id, store.folder, True, reason, tuple(notes), interrupted, stale)
