"""Results folders with finished sweeps, for tests of rollouts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from treeline.keys import ClientKey, Item, Plan, RestartKey
from treeline.records import Controller, Finished, Measurement, Provenance, Sweep, Times
from treeline.store import SweepStore

NOW = "2026-01-10T00:00:00.000Z"
B300 = Provenance(
    hardware_class="8x B300", engine="sglang", engine_build="sglang 0.5.23", model="k2", driver="580.1"
)
H200 = Provenance(
    hardware_class="8x H200", engine="sglang", engine_build="sglang 0.5.23", model="k2", driver="580.1"
)
ME = Controller(host="here", boot_id="an earlier boot", pid=1, pid_start=1)


def add_trial(
    results: Path,
    number: int,
    budget: int,
    *,
    provenance: Provenance = B300,
    status: str = "ok",
    tok_s: float | None = 100.0,
    at: str = "2026-01-09T00:00:00.000Z",
    given: RestartKey | None = None,
    dialect: str = "field",
    **point: Any,
) -> str:
    """A sweep of one trial with one measured point at concurrency 32; returns the trial's id.

    `given` is its whole restart key, for more than a budget.
    """
    sweep_id = f"20260109T0000{number:02d}Z-abcdef01"
    key = given or RestartKey(budget=budget, topk=8, maxreq=64, block_size=8, graphs=True)
    item = Item.of(key, [ClientKey(concurrency=32)], reason="grid")
    folder = results / sweep_id
    folder.mkdir(parents=True)
    store = SweepStore(folder)
    trial_id = f"{sweep_id}-0001"
    with store.lock():
        store.write_sweep(
            Sweep(
                sweep_id=sweep_id,
                plan_hash="abcdef01",
                plan=Plan(kind="grid", items=(item,)),
                dialect=dialect,
                created_at=at,
                provenance={"gpu1": provenance},
            )
        )
        store.append_trial(
            Finished(
                trial_id=trial_id,
                sweep_id=sweep_id,
                item_id=item.item_id,
                cell=item.cell,
                purpose="explore",
                ordinal=1,
                host="gpu1",
                hardware_class=provenance.hardware_class,
                key=key,
                at=at,
                status=status,
                effect="good" if status == "ok" else "bad",
                kind="none" if status == "ok" else "config",
                class_="ok" if status == "ok" else "illegal_address",
                phase="serving",
                times=Times(started_at=at),
            )
        )
        if tok_s is not None:
            store.append_measurement(
                Measurement(
                    **{
                        "trial_id": trial_id,
                        "sweep_id": sweep_id,
                        "host": "gpu1",
                        "hardware_class": provenance.hardware_class,
                        "key": key,
                        "concurrency": 32,
                        "requests": 64,
                        "at": at,
                        "output_tok_s": tok_s,
                        "al": 2.5,  # the lab's engine accepts more, at any tree that tests roll out
                        **point,
                    }
                )
            )
    return trial_id
