"""Sweeps, claims and verdicts in few words."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
from treeline.controller import boot_id, process_start
from treeline.keys import ClientKey, Item, Plan, RestartKey
from treeline.records import Controller, Finished, Run, Started, Sweep, Times
from treeline.store import SweepStore

DEAD = Controller(host="elsewhere-1", boot_id="0", pid=1, pid_start=1)


def me(pid: int | None = None) -> Controller:
    number = pid or os.getpid()
    import socket

    return Controller(
        host=socket.gethostname(), boot_id=boot_id(), pid=number, pid_start=process_start(number) or 0
    )


def key(budget: int = 8) -> RestartKey:
    return RestartKey(budget=budget, topk=8, maxreq=64, block_size=8, graphs=True)


def item(budget: int = 8) -> Item:
    return Item.of(key(budget), [ClientKey(concurrency=1)], reason="grid")


def plan(*budgets: int) -> Plan:
    return Plan(kind="grid", items=tuple(item(budget) for budget in budgets))


def started(seq: int, of: Item | None = None, **changes: Any) -> Started:
    of = of or item()
    values: dict[str, Any] = {
        "trial_id": f"s-{seq:04d}",
        "sweep_id": "s",
        "item_id": of.item_id,
        "cell": of.cell,
        "purpose": of.purpose,
        "ordinal": of.ordinal,
        "host": "lab1",
        "hardware_class": "cpu",
        "key": of.key,
        "at": "2026-01-01T00:00:00.000Z",
        "seq": seq,
        "reason": "grid",
        "controller": me(),
    }
    return Started(**(values | changes))


def finished(of: Started, status: str = "ok", effect: str = "good", **changes: Any) -> Finished:
    values: dict[str, Any] = {
        name: getattr(of, name)
        for name in Finished.__struct_fields__
        if name in Started.__struct_fields__ and name != "at"
    }
    values |= {
        "at": "2026-01-01T00:01:00.000Z",
        "status": status,
        "effect": effect,
        "kind": "none",
        "times": Times(started_at=of.at, total_s=60.0),
    }
    return Finished(**(values | changes))


def sweep(of: Plan, **changes: Any) -> Sweep:
    values: dict[str, Any] = {
        "sweep_id": "s",
        "plan_hash": "abcdef01",
        "plan": of,
        "dialect": "field",
        "created_at": "2026-01-01T00:00:00.000Z",
        "runs": [Run(controller=me(), started_at="2026-01-01T00:00:00.000Z")],
    }
    return Sweep(**(values | changes))


def store_at(folder: Path, of: Plan | None = None, **changes: Any) -> SweepStore:
    folder.mkdir(parents=True, exist_ok=True)
    store = SweepStore(folder)
    with store.lock():
        store.write_sweep(sweep(of or plan(8, 16), **changes))
    return store


def append(store: SweepStore, *lines: Started | Finished) -> None:
    with store.lock():
        for line in lines:
            store.append_trial(line)


def encoded(line: Any) -> bytes:
    return msgspec.json.encode(line)
