"""How a run ended, and what makes its exit code non-zero."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from store_builders import append, finished, item, me, plan, started, store_at
from treeline.claiming import Asker, claim
from treeline.closing import Closed, close_sweep
from treeline.keys import Column, Frontier, Load, Plan, Slice
from treeline.memory import MEMORY
from treeline.outcomes import host_outcome
from treeline.records import HostState, Provenance, Run
from treeline.store import SweepStore

FINE = {"lab1": {"restored": True, "reason": ""}}


def closed(
    store: SweepStore,
    hosts: dict[str, Any] | None = None,
    fail_on_bad: bool = False,
    forecast_s: float | None = None,
) -> Closed:
    told = FINE if hosts is None else hosts
    return close_sweep(store, me(), told, fail_on_bad=fail_on_bad, forecast_s=forecast_s)


def filled(folder: Path, *effects: str, **changes: Any) -> SweepStore:
    store = store_at(folder, plan(*(8 * (n + 1) for n in range(len(effects)))), **changes)
    for seq, effect in enumerate(effects, 1):
        line = started(seq, item(8 * seq))
        status = {"good": "ok", "void": "void"}.get(effect, "crash")
        append(store, line, finished(line, status, effect))
    return store


def test_a_complete_sweep_is_finished(tmp_path: Path) -> None:
    store = filled(tmp_path / "s", "good", "bad")
    result = closed(store)
    assert (result.outcome, result.finished, result.failures) == ("complete", True, ())
    assert result.states == {"good": 1, "bad": 1}
    sweep = store.read_sweep()
    assert sweep.finished_at is not None
    assert sweep.runs[0].ended_at == sweep.finished_at
    assert sweep.runs[0].outcome == "complete"


def test_a_damaged_crash_memory_is_said_and_fails_no_sweep(tmp_path: Path) -> None:
    good = msgspec.json.encode({"identity": "of none"})
    (tmp_path / MEMORY).write_bytes(b"\n".join([good, b'{"identity": ', good, b""]))
    store = filled(tmp_path / "s", "good", "bad")
    result = closed(store)
    assert (result.outcome, result.finished, result.failures) == ("complete", True, ())
    assert "; complete; the crash memory was not written: " in result.message
    assert MEMORY in result.message
    assert store.read_sweep().finished_at is not None


def test_a_host_that_is_not_restored_fails_the_run(tmp_path: Path) -> None:
    store = filled(tmp_path / "s", "good")
    result = closed(store, {"lab1": {"restored": False, "reason": "no route to host"}})
    # Its plan is complete, and the same command goes on with it until nothing is owed any more.
    assert (result.outcome, result.finished) == ("complete", False)
    assert any("lab1 is NOT restored: no route to host" in text for text in result.failures)
    sweep = store.read_sweep()
    assert "NOT restored" in str(sweep.runs[0].reason)
    assert (sweep.outcome, sweep.finished_at) == ("complete", None)
    assert closed(store).finished


def test_what_an_earlier_run_owes_stays_owed_where_this_one_did_not_come_to_the_host(tmp_path: Path) -> None:
    debt = HostState(touched=True, restored=False, reason="no route to host")
    run = Run(controller=me(), started_at="2026-01-01T00:00:00.000Z", hosts={"lab1": debt})
    store = filled(tmp_path / "s", "good", runs=[run])
    away = {"lab1": host_outcome({"__treeline_preflight": {"unreachable": True, "msg": "timed out"}})}
    result = closed(store, away)
    assert not result.finished
    assert any("lab1 is NOT restored: no route to host; now: timed out" in text for text in result.failures)
    back = {"lab1": host_outcome({"__treeline_snapshot": {}, "__treeline_restored": {"restored": True}})}
    assert closed(store, back).finished


def test_how_each_host_was_left_is_on_record(tmp_path: Path) -> None:
    store = filled(tmp_path / "s", "good")
    left = {"__treeline_snapshot": {}, "__treeline_restored": {"msg": "no; not yet"}}
    hosts = {
        "lab1": host_outcome({"__treeline_snapshot": {}, "__treeline_restored": {"restored": True}}),
        "lab2": host_outcome(left | {"__treeline_broke_off": "x"}),
        "lab3": host_outcome({}),
        "lab4": host_outcome({"__treeline_preflight": {"failed": True, "msg": "no systemd"}}),
    }
    result = closed(store, hosts)
    told = [text.split(":")[0] for text in result.failures]
    assert told == ["lab2 is NOT restored", "lab2 left the sweep early"]
    assert store.read_sweep().runs[-1].hosts == {
        "lab1": HostState(touched=True, restored=True),
        "lab2": HostState(touched=True, restored=False, reason="no; not yet", broke_off="x"),
        "lab3": HostState(touched=False, restored=False, reason="no trial ran on it"),
        "lab4": HostState(touched=False, restored=False, reason="no systemd"),
    }


def test_a_host_that_left_early_fails_the_run_where_items_are_left(tmp_path: Path) -> None:
    left_early = {"lab1": {"restored": True, "broke_off": "disk full"}}
    store = store_at(tmp_path / "s", plan(8, 16))
    append(store, started(1), finished(started(1)))
    assert any("left the sweep early: disk full" in text for text in closed(store, left_early).failures)
    # Others did all of the plan and the host is as it was found: nothing is owed to anybody.
    assert closed(filled(tmp_path / "t", "good"), left_early).failures == ()


def test_an_earlier_sweeps_snapshot_is_owed_although_the_host_was_refused(tmp_path: Path) -> None:
    refused = {"__treeline_preflight": {"failed": True, "msg": "port taken", "snapshot_present": "older"}}
    result = closed(filled(tmp_path / "s", "good"), {"lab2": host_outcome(refused)})
    assert any("lab2 is NOT restored: the snapshot of sweep older" in text for text in result.failures)


def test_the_limit_of_a_run_is_no_failure_and_leaves_the_sweep_open(tmp_path: Path) -> None:
    store = store_at(tmp_path / "s", plan(8, 16), options={"max_trials_per_run": 1})
    line = started(1)
    append(store, line, finished(line))
    result = closed(store)
    assert (result.outcome, result.finished, result.failures) == ("limit", False, ())
    assert "1 items are left" in result.message
    assert "same command again" in result.message
    assert store.read_sweep().finished_at is None


def test_a_sweep_without_time_for_one_more_trial_ended_cleanly_by_its_hours(tmp_path: Path) -> None:
    began = (datetime.now(UTC) - timedelta(hours=1.8)).isoformat()
    run = Run(controller=me(), started_at=began)
    store = store_at(tmp_path / "s", plan(8, 16), options={"max_hours": 2.0}, runs=[run])
    line = started(1)
    append(store, line, finished(line))
    asker = Asker(host="lab1", hardware_class="cpu", controller=me(), forecast_s=1200.0)
    assert claim(store, asker).state == "done"
    result = closed(store, forecast_s=1200.0)
    assert (result.outcome, result.finished, result.failures) == ("limit", False, ())
    assert "max_hours=2" in result.message
    # With time for another one the hosts should have gone on.
    assert closed(store, forecast_s=60.0).outcome == "incomplete"


def test_a_limit_before_the_throughput_search_leaves_the_sweep_open(tmp_path: Path) -> None:
    columns = (Column(budget=8, maxreqs=(64,)), Column(budget=16, maxreqs=(64,)))
    part = Slice(topk=8, block_size=8, graphs=True, columns=columns)
    spec = Frontier(
        slices=(part,), load=Load(concurrency=(8,)), audit_share=0.0, confirm=False, throughput=True
    )
    search = Plan(kind="frontier", items=(), frontier=spec)
    store = store_at(tmp_path / "s", search, options={"max_restarts": 2})
    for seq, (budget, rates) in enumerate(((8, {"8": 300.0}), (16, {})), 1):
        line = started(seq, item(budget))
        append(store, line, finished(line, throughput=rates))
    result = closed(store)
    assert (result.outcome, result.finished, result.failures) == ("limit", False, ())
    assert "1 items are left" in result.message
    more = started(3, item(16).again("explore", 3, "throughput"))
    append(store, more, finished(more, throughput={"8": 310.0}))
    assert closed(store).finished


def test_a_stopped_sweep_fails_and_can_be_resumed(tmp_path: Path) -> None:
    store = filled(tmp_path / "s", "setup")
    result = closed(store)
    assert (result.outcome, result.finished) == ("stopped", False)
    assert any("the sweep was stopped" in text for text in result.failures)


def test_no_host_could_work(tmp_path: Path) -> None:
    store = store_at(tmp_path / "s", plan(8), provenance={"lab1": Provenance(hardware_class="cpu")})
    result = closed(store)
    assert result.outcome == "incomplete"
    assert any("no host could work" in text for text in result.failures)


def test_items_left_because_their_host_went_out_fail_with_the_reason(tmp_path: Path) -> None:
    result = closed(filled(tmp_path / "s", "void", "void"))
    assert result.outcome == "incomplete"
    assert any(
        "no host could work (lab1: two of its trials in a row were void" in text for text in result.failures
    )
    assert any("2 items of the plan were not run" in text for text in result.failures)


def test_a_plan_that_only_gave_void_trials_is_a_failure_although_it_is_complete(tmp_path: Path) -> None:
    store = store_at(tmp_path / "s", plan(8))
    for seq in range(1, 5):
        line = started(seq, host=f"lab{seq}")
        append(store, line, finished(line, "void", "void"))
    result = closed(store)
    assert (result.outcome, result.states) == ("complete", {"unknown": 1})
    assert result.failures == ("no host could work",)


def test_a_host_that_went_out_is_no_failure_where_the_others_did_the_plan(tmp_path: Path) -> None:
    store = filled(tmp_path / "s", "good")
    for seq in (2, 3):
        line = started(seq, host="lab2")
        append(store, line, finished(line, "void", "void"))
    assert closed(store).failures == ()


def test_every_class_owes_the_plan(tmp_path: Path) -> None:
    classes = {"lab1": Provenance(hardware_class="cpu"), "lab2": Provenance(hardware_class="b")}
    result = closed(filled(tmp_path / "s", "good", provenance=classes))
    assert result.outcome == "incomplete"
    assert result.states == {"good": 1, "open": 1}
    # A host of the same class that had nothing to do owes nothing.
    classes = {"lab1": Provenance(hardware_class="cpu"), "lab2": Provenance(hardware_class="cpu")}
    assert closed(filled(tmp_path / "t", "good", provenance=classes)).outcome == "complete"


def test_fail_on_bad_fails_for_every_cell_that_is_not_good(tmp_path: Path) -> None:
    store = filled(tmp_path / "s", "good", "bad", "dialect")
    assert closed(store).failures == ()
    result = closed(store, fail_on_bad=True)
    assert result.failures == ("fail_on_bad: 1 bad, 1 unknown cells",)


def test_an_earlier_runs_stop_does_not_count(tmp_path: Path) -> None:
    store = store_at(tmp_path / "s", plan(8))
    gone = msgspec.structs.replace(me(), pid_start=1)
    old, new = started(1, controller=gone), started(2)
    append(store, old, finished(old, "crash", "setup"), new, finished(new))
    assert closed(store).outcome == "complete"
