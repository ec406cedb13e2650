"""Write sweep folders with everything that analysis looks at: failures, lives, anchors, implied cells."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from sweeps import SWEEP_ID, SweepFolder, item
from treeline import plan as planner
from treeline.keys import Column, Frontier, Item, Load, Plan, Slice
from treeline.plan import History
from treeline.records import Measurement, Started, Times

GOOD: dict[str, Any] = {
    "class_": "ok",
    "phase": "serving",
    "effect": "good",
    "engine": "reference",
    "simulated": True,
}
TIMES = Times(started_at="2026-01-01T00:00:00.000Z", restart_s=3.0, ready_s=4.0, load_s=12.0, total_s=25.0)
EVIL = "RuntimeError: <script>alert('log')</script> \x1b[31mred"


def bad(cause: str, status: str = "crash", **changes: Any) -> dict[str, Any]:
    """Return what a failed trial has of a class."""
    phase = "graph_capture" if status == "crash" else "serving"
    return {
        "status": status,
        "class_": cause,
        "phase": phase,
        "effect": "bad",
        "kind": "config",
        "first_error": f"Error: {cause}",
        "advice": "Try graphs=off.",
        "engine": "reference",
        "simulated": True,
        "times": TIMES,
    } | changes


def measure(folder: SweepFolder, claim: Started, concurrency: int, **values: Any) -> None:
    """Append one measurement of a trial."""
    told: dict[str, Any] = {
        "requests": 16,
        "ok": 16,
        "completion_tokens": 4500,
        "verify_calls": 1000,
        "al": 4.5,
        "output_tok_s": 300.0,
        "duration_s": 15.0,
        "prompt_tokens": 9000,
        "ttft_p50_ms": 20.0,
        "ttft_p99_ms": 40.0,
        "tpot_p50_ms": 3.3,
        "tpot_p90_ms": 3.6,
        "tpot_p99_ms": 4.0,
        "engine": "reference",
        "simulated": True,
        "accepted_histogram": [100, 100, 150, 200, 250, 100, 50, 50],
    }
    line = Measurement(
        trial_id=claim.trial_id,
        sweep_id=claim.sweep_id,
        host=claim.host,
        hardware_class=claim.hardware_class,
        key=claim.key,
        concurrency=concurrency,
        at=claim.at,
        **(told | values),
    )
    with folder.store.lock():
        folder.store.append_measurement(line)


def field_notes(path: Path) -> SweepFolder:
    """Write the field notes' seven configurations, one trial each."""
    rows: list[tuple[int, int, int, bool, dict[str, Any] | None]] = [
        (8, 4, 128, True, None),
        (8, 4, 256, True, bad("cublas_execution_failed", first_error=EVIL)),
        (16, 8, 128, True, bad("cublas_execution_failed")),
        (16, 8, 64, True, bad("illegal_address")),
        (32, 8, 32, True, bad("silent_corruption", "garbled")),
        (16, 8, 64, False, None),
        (64, 8, 16, True, bad("silent_corruption", "garbled", extrapolated=True)),
    ]
    plan = [item(budget, maxreq, topk=topk, graphs=graphs) for budget, topk, maxreq, graphs, _ in rows]
    folder = SweepFolder(path, *plan)
    for of, (*_, failure) in zip(plan, rows, strict=True):
        claim = folder.start(of)
        if failure is not None:
            folder.finish(claim, **failure)
            continue
        al = 4.5 if of.key.graphs else 5.3
        measure(folder, claim, 1, al=al, output_tok_s=303.0)
        slo = {
            "ttft_ms": 500.0,
            "tpot_ms": 50.0,
            "good": 15,
            "of": 16,
            "share": 0.9375,
            "requests_s": 7.5,
            "tok_s": 1e3,
        }
        measure(folder, claim, 32, al=al + 0.05, output_tok_s=2400.0, tpot_p50_ms=12.0, goodput=slo)
        folder.finish(claim, al=al, throughput={"1": 303.0, "32": 2400.0}, times=TIMES, **GOOD)
    _journal(path / "evidence" / f"{SWEEP_ID}-0002")
    return folder


def _journal(folder: Path) -> None:
    folder.mkdir(parents=True)
    messages = ["loading weights", EVIL, "after the error", [72, 105, 60, 98, 62]]
    lines = [json.dumps({"MESSAGE": message}) for message in messages]
    (folder / "journal.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))


def lives(path: Path, rates: dict[int, list[float]], **changes: Any) -> SweepFolder:
    """Write a sweep with several lives of some budgets (maxreq 64), tok/s as given, AL by budget."""
    plan = [item(budget) for budget in rates]
    folder = SweepFolder(path, *plan, **changes)
    for of in plan:
        for number, rate in enumerate(rates[of.key.budget], 1):
            life = of if number == 1 else of.again("confirm", number, "lives")
            claim = folder.start(life)
            measure(folder, claim, 8, al=3.0 + of.key.budget / 16 + number / 100, output_tok_s=rate)
            folder.finish(claim, times=TIMES, **GOOD)
    return folder


def anchors(path: Path, rates: list[float], degrees: list[float] | None = None) -> SweepFolder:
    """Write a sweep with an anchor that is measured again and again; ``degrees``: how hot the GPUs got."""
    of = item(8)
    folder = SweepFolder(path, of)
    folder.run(of, times=TIMES, **GOOD)
    for number, rate in enumerate(rates, 1):
        claim = folder.start(of.again("anchor", number, "drift"))
        told = {"temperature_c_max": degrees[number - 1]} if degrees else None
        measure(folder, claim, 8, output_tok_s=rate, telemetry=told)
        folder.finish(claim, times=TIMES, **GOOD)
    return folder


def frontier(path: Path, limit: int = 1170) -> SweepFolder:
    """Write a finished search for a frontier whose truth is a product law: rows >= limit die."""
    budgets, limits = (8, 16, 32, 64), (8, 16, 32, 64, 128)
    part = Slice(
        topk=8, block_size=8, graphs=True, columns=tuple(Column(budget=b, maxreqs=limits) for b in budgets)
    )
    spec = Frontier(slices=(part,), load=Load(concurrency=(1,)), confirm=True)
    plan = Plan(kind="frontier", items=(), frontier=spec)
    folder = SweepFolder(path, plan=plan)
    while True:
        history = History.of(
            folder.store.read_trials(), "8x B300", this_run=lambda claim: True, in_flight=lambda claim: False
        )
        step = planner.next_step(plan, history.past, history.in_flight, "lab1")
        if not isinstance(step, Item):
            return folder
        claim = folder.start(step)
        if step.key.rows >= limit:
            folder.finish(claim, **bad("cublas_execution_failed"))
        else:
            measure(folder, claim, 1, output_tok_s=200.0 + step.key.budget)
            folder.finish(claim, al=4.5, throughput={"1": 200.0}, times=TIMES, **GOOD)


def renamed(folder: SweepFolder, name: str) -> None:
    """Give a sweep another id."""
    for path in (folder.store.sweep_path, folder.store.trials_path, folder.store.measurements_path):
        if not path.is_file():
            continue
        path.write_bytes(path.read_bytes().replace(SWEEP_ID.encode(), f"{SWEEP_ID[:-1]}{name}".encode()))


def torn(folder: SweepFolder) -> None:
    """Cut a line short at the end of both files, as a crash does."""
    for path in (folder.store.trials_path, folder.store.measurements_path):
        with path.open("ab") as stream:
            stream.write(b'{"event":"started","trial_id":"x')
