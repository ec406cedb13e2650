"""Write sweep folders as the record action leaves them."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

from treeline.controller import boot_id, process_start
from treeline.keys import ClientKey, Item, Plan, Purpose, RestartKey
from treeline.records import Controller, Finished, Provenance, Run, Started, Sweep, Times
from treeline.store import SweepStore

SWEEP_ID = "20260101T000000Z-abcdef01"
DEAD = Controller(host=socket.gethostname(), boot_id="an earlier boot", pid=1, pid_start=1)
ALIVE = Controller(
    host=socket.gethostname(), boot_id=boot_id(), pid=os.getpid(), pid_start=process_start(os.getpid()) or 0
)


def item(
    budget: int, maxreq: int = 64, *, purpose: Purpose = "explore", ordinal: int = 1, **key: Any
) -> Item:
    """Return a planned item: topk 8, block size 8, graphs on unless given otherwise."""
    values = {"topk": 8, "block_size": 8, "graphs": True} | key
    restart = RestartKey(budget=budget, maxreq=maxreq, **values)
    return Item.of(restart, [ClientKey(concurrency=1)], reason="grid", purpose=purpose, ordinal=ordinal)


class SweepFolder:
    """A sweep folder under construction."""

    def __init__(self, folder: Path, *items: Item, **changes: Any) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.store = SweepStore(folder)
        self._seq = 0
        values: dict[str, Any] = {
            "sweep_id": SWEEP_ID,
            "plan_hash": "abcdef01",
            "plan": Plan(kind="grid", items=items),
            "dialect": "field",
            "created_at": "2026-01-01T00:00:00.000Z",
            "provenance": {
                "lab1": Provenance(hardware_class="8x B300", engine_build="sglang 0.5.23", model="k2")
            },
            "runs": [Run(controller=ALIVE, started_at="2026-01-01T00:00:00.000Z")],
        }
        with self.store.lock():
            self.store.write_sweep(Sweep(**(values | changes)))

    def start(self, of: Item, host: str = "lab1", controller: Controller = DEAD) -> Started:
        """Append a claim."""
        self._seq += 1
        line = Started(
            trial_id=f"{SWEEP_ID}-{self._seq:04d}",
            sweep_id=SWEEP_ID,
            item_id=of.item_id,
            cell=of.cell,
            purpose=of.purpose,
            ordinal=of.ordinal,
            host=host,
            hardware_class="8x B300",
            key=of.key,
            at=f"2026-01-01T00:{self._seq:02d}:00.000Z",
            seq=self._seq,
            reason=of.reason,
            controller=controller,
        )
        with self.store.lock():
            self.store.append_trial(line)
        return line

    def finish(self, claim: Started, status: str = "ok", **changes: Any) -> None:
        """Append a verdict."""
        values: dict[str, Any] = {
            name: getattr(claim, name)
            for name in Finished.__struct_fields__
            if name in Started.__struct_fields__ and name != "at"
        }
        values |= {"at": "2026-01-01T01:00:00.000Z", "status": status, "effect": "good", "kind": "none"}
        values |= {"times": Times(started_at=claim.at, total_s=60.0), "rows": claim.key.rows}
        values |= {"evidence": f"evidence/{claim.trial_id}"}
        with self.store.lock():
            self.store.append_trial(Finished(**(values | changes)))

    def run(self, of: Item, status: str = "ok", host: str = "lab1", **changes: Any) -> None:
        """Append a claim and its verdict."""
        self.finish(self.start(of, host), status, **changes)
