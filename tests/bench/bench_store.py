"""Print how long a resume reads the store of a sweep of 5,000 finished trials, and how long one claim takes.

`python tests/bench/bench_store.py [--items N]`. Lines are as long as those of trials on lab hosts.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from treeline.claiming import Asker, claim
from treeline.controller import this_controller
from treeline.keys import ClientKey, Item, Plan, RestartKey
from treeline.opening import Request, open_sweep
from treeline.records import Controller, Finished, Run, Started, Sweep, Times, utc_now
from treeline.store import SweepStore

PLAN_HASH = "0badcafe"
SWEEP_ID = f"20260101T000000Z-{PLAN_HASH}"
NOBODY = Controller(host="elsewhere", boot_id="0", pid=1, pid_start=1)
# Stands in for what makes a real verdict's line 4 to 6 kB long: most of that are its gates.
SERVED = {f"argument_{number:02d}": "value of an argument" for number in range(90)}


def item(number: int) -> Item:
    """One small configuration of many."""
    key = RestartKey(budget=1 + number // 100, topk=8, maxreq=1 + number % 100, block_size=8, graphs=True)
    return Item.of(key, [ClientKey(concurrency=1)], reason="grid")


def lines_of(planned: Item, seq: int) -> tuple[Started, Finished]:
    """A claim and a verdict."""
    same: dict[str, Any] = {
        "trial_id": f"bench-{seq:04d}",
        "sweep_id": SWEEP_ID,
        "item_id": planned.item_id,
        "cell": planned.cell,
        "purpose": planned.purpose,
        "ordinal": planned.ordinal,
        "host": "host1",
        "hardware_class": "cpu",
        "key": planned.key,
        "at": utc_now(),
    }
    begun = Started(seq=seq, reason=planned.reason, controller=NOBODY, **same)
    times = Times(started_at=same["at"], total_s=60.0)
    return begun, Finished(status="ok", effect="good", kind="none", times=times, served=SERVED, **same)


def timed(name: str, what: Callable[[], object], allowed_s: float | None = None) -> None:
    """Print the wall time of one call."""
    begun = time.perf_counter()
    what()
    bound = f" (allowed {allowed_s:g})" if allowed_s is not None else ""
    print(f"{name:<34} {time.perf_counter() - begun:.3f} s{bound}")


def main() -> None:
    """Write a store, resume it, claim from it."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--items", type=int, default=5000, help="trials that are over")
    count = options.parse_args().items
    items = tuple(item(number) for number in range(count + 100))
    me = this_controller()
    with tempfile.TemporaryDirectory() as name:
        results = Path(name)
        store = SweepStore(results / SWEEP_ID)
        store.folder.mkdir()
        plan = Plan(kind="grid", items=items)
        sweep = Sweep(
            sweep_id=SWEEP_ID,
            plan_hash=PLAN_HASH,
            plan=plan,
            dialect="field",
            created_at=utc_now(),
            runs=[Run(controller=NOBODY, started_at=utc_now(), ended_at=utc_now())],
        )
        with store.lock():
            store.write_sweep(sweep)
            for seq, planned in enumerate(items[:count], start=1):
                for line in lines_of(planned, seq):
                    store.append_trial(line)
        size = sum(path.stat().st_size for path in store.folder.iterdir())
        print(f"{count} trials are over, {size / 1e6:.1f} MB")
        timed("read the trials", store.read_trials)
        request = Request(plan=plan, plan_hash=PLAN_HASH, dialect="field")
        opened = []
        timed("resume", lambda: opened.append(open_sweep(results, request, {}, me)), 2)
        if not opened[0].resumed:
            raise SystemExit(f"the sweep was not resumed: {opened[0]}")
        asker = Asker("host1", "cpu", me)
        timed("claim the next item", lambda: claim(store, asker))


if __name__ == "__main__":
    main()
