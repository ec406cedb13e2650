"""Recording: everything is on the disk before the finished line, and failures are loud."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from treeline import baselines
from treeline.baselines import Baseline
from treeline.claiming import Asker, claim
from treeline.controller import this_controller
from treeline.keys import RestartKey
from treeline.recording import Ended, record
from treeline.records import Provenance, Run, Sweep, utc_now
from treeline.steps import Steps
from treeline.store import StoreError, SweepStore
from trial_builders import CRASH_LOG, GOOD_LOG, archive, crash_steps, good_steps, item, plan, point


@pytest.fixture
def store(tmp_path: Path) -> SweepStore:
    folder = tmp_path / "20260101T000000Z-abcdef01"
    folder.mkdir()
    store = SweepStore(folder)
    now = utc_now()
    with store.lock():
        store.write_sweep(
            Sweep(
                sweep_id=folder.name,
                plan_hash="abcdef01",
                plan=plan(16, 32),
                dialect="field",
                created_at=now,
                provenance={"lab1": Provenance(hardware_class="cpu", engine="treeline-reference-engine")},
                runs=[Run(controller=this_controller(), started_at=now)],
            )
        )
    claim(store, Asker("lab1", "cpu", this_controller()))
    return store


def trial_id(store: SweepStore) -> str:
    return f"{store.folder.name}-0001"


def ended(store: SweepStore, steps: dict[str, Any], packed: Path | None = None, **changes: Any) -> Ended:
    return Ended(trial_id(store), item(), Steps.of(steps), packed, **changes)


def incoming(store: SweepStore) -> Path:
    return store.folder / "incoming" / "x.tar.gz"


def test_a_good_trial_leaves_everything_behind(store: SweepStore) -> None:
    packed = archive(incoming(store), *GOOD_LOG, requests=3)
    got = record(store, ended(store, good_steps(trial_id(store)), packed, host="lab1"))
    line = got.line
    assert (line.status, line.class_, line.phase, line.effect) == ("ok", "ok", "serving", "good")
    assert store.read_trials().finished == {line.trial_id: line}
    assert (line.al, line.throughput) == (4.0, {"8": 800.0, "1": 100.0})
    assert (line.engine, line.simulated, line.extrapolated) == ("reference", True, True)
    assert (line.times.restart_s, line.times.ready_s, line.times.load_s) == (0.5, 4.5, 5.0)
    assert line.rows == 64 * 17
    assert (line.invocation_id, line.previous_invocation_id, line.main_pid) == ("new", "old", 100)
    assert line.served == {"speculative_ddtree_budget": 16}

    rows = store.read_measurements()
    assert [row.concurrency for row in rows] == [8, 1]
    assert rows[0].key == item().key
    assert (rows[0].garbled, rows[0].judged, rows[0].window["peak"]) == (0, 16, 8)  # type: ignore[index]

    evidence = store.folder / str(line.evidence)
    assert (evidence / "show.txt").exists()
    answers = json.loads((evidence / "load.json").read_text())
    assert [answer["id"] for answer in answers["canaries"]][:2] == ["c0", "c1"]
    log = gzip.decompress((evidence / "journal.jsonl.gz").read_bytes())
    assert b"fired up" in log
    assert b"very-private" not in log
    table = pq.read_table(store.folder / "requests" / f"{line.trial_id}.parquet")
    assert table.num_rows == 3
    assert not packed.exists()
    assert not incoming(store).parent.exists()


def test_speed_is_held_against_the_baseline_of_the_same_context(store: SweepStore) -> None:
    """A sweep with one context only is named by it all the same."""
    here = Provenance(hardware_class="cpu", engine="treeline-reference-engine", engine_build="1.0", model="m")
    with store.lock():
        sweep = store.read_sweep()
        sweep.provenance = {"lab1": here}
        store.write_sweep(sweep)
    baseline = Baseline(
        hardware_class="cpu",
        engine_build="1.0",
        model="m",
        trial_id="base-0001",
        sweep_id="base",
        host="lab1",
        at="2026-01-01T00:00:00.000Z",
        key=RestartKey(budget=0, topk=1, maxreq=64, block_size=8, graphs=True),
        throughput={"8": 100.0, "8@4096": 400.0},
    )
    assert baselines.store(store.folder.parent, baseline)
    steps = good_steps(trial_id(store))
    steps["load"]["points"] = [point(8, context=4096), point(1)]
    line = record(store, ended(store, steps, baseline="auto")).line
    assert line.throughput == {"8@4096": 800.0, "1": 100.0}
    assert line.speedup == {"8@4096": 2.0}


def test_the_folder_of_fetched_archives_stays_while_it_is_needed(store: SweepStore) -> None:
    other = claim(store, Asker("lab2", "cpu", this_controller()))
    assert other.state == "item"
    record(store, ended(store, good_steps(trial_id(store)), archive(incoming(store), *GOOD_LOG)))
    assert incoming(store).parent.is_dir()  # lab2 may be about to fetch into it
    packed = archive(incoming(store), *CRASH_LOG)
    (incoming(store).parent / "left").touch()
    record(store, Ended(str(other.trial_id), item(32), Steps.of(crash_steps()), packed))
    assert [path.name for path in incoming(store).parent.iterdir()] == ["left"]


def test_a_crash_is_a_row_like_any_other(store: SweepStore) -> None:
    got = record(store, ended(store, crash_steps(), archive(incoming(store), *CRASH_LOG)))
    line = got.line
    assert (line.status, line.class_, line.phase, line.step) == (
        "crash",
        "illegal_address",
        "graph_capture",
        "ready",
    )
    assert (line.captured_bs, line.rank, line.kind, line.effect) == (64, 0, "config", "bad")
    assert "illegal memory access" in str(line.first_error)
    assert line.advice
    assert store.read_measurements() == ()
    # Engine and timing are known from the host where the engine itself never answered.
    assert (line.engine, line.simulated) == ("reference", True)


def test_gates_are_on_record_with_their_values(store: SweepStore) -> None:
    steps = good_steps(trial_id(store))
    steps["load"]["points"] = [point(8, failed=2), point(1, verify_calls=2048)]
    line = record(store, ended(store, steps, archive(incoming(store), *GOOD_LOG))).line
    gates = {gate.name: gate for gate in line.gates}
    assert line.status == "accept_collapse"
    assert (gates["acceptance"].verdict, gates["acceptance"].value) == ("failed", 1.0)
    assert (gates["failed_requests"].verdict, gates["failed_requests"].value) == ("failed", 2)
    assert gates["canaries_single"].verdict == "passed"
    assert gates["evidence"].verdict == "passed"


@pytest.mark.parametrize("damage", ["missing", "garbage", "none"])
def test_missing_evidence_is_said_and_does_not_stop_the_record(
    store: SweepStore, tmp_path: Path, damage: str
) -> None:
    packed = None if damage == "none" else tmp_path / "x.tar.gz"
    if damage == "garbage":
        (tmp_path / "x.tar.gz").write_bytes(b"not an archive")
    got = record(store, ended(store, good_steps(trial_id(store)), packed))
    assert got.line.status == "ok"
    assert got.line.evidence is None
    assert got.remarks
    gate = next(gate for gate in got.line.gates if gate.name == "evidence")
    assert gate.verdict == "not available"
    # What could not be used is left for a person to look at.
    assert (tmp_path / "x.tar.gz").exists() == (damage == "garbage")


def test_evidence_without_a_journal_is_kept_all_the_same(store: SweepStore) -> None:
    packed = archive(incoming(store), leave_out="journal.jsonl.gz")
    got = record(store, ended(store, crash_steps(), packed))
    assert (got.line.status, got.line.class_, got.line.phase) == ("crash", "unknown", "graph_capture")
    assert (store.folder / str(got.line.evidence) / "show.txt").exists()
    assert "the evidence holds no journal" in got.remarks


def test_what_the_evidence_module_noted_is_said(store: SweepStore) -> None:
    steps = good_steps(trial_id(store))
    steps["evidence"] |= {"lost_lines": 7, "notes": ["journald suppressed 7 messages"]}
    got = record(store, ended(store, steps, archive(incoming(store), *GOOD_LOG)))
    assert "journald suppressed 7 messages" in got.remarks
    gate = next(gate for gate in got.line.gates if gate.name == "evidence")
    assert "7 lines of the journal are known to be lost" in gate.detail


def test_a_point_that_is_no_measurement_is_said_and_the_others_are_kept(store: SweepStore) -> None:
    steps = good_steps(trial_id(store))
    steps["load"]["points"] = [point(8, requests="many"), point(1, al=float("inf"))]
    got = record(store, ended(store, steps))
    assert [row.concurrency for row in store.read_measurements()] == [1]
    assert store.read_measurements()[0].al is None
    assert any("concurrency 8 is not a measurement" in remark for remark in got.remarks)


def test_unreachable_and_unexplained_trials(store: SweepStore) -> None:
    steps = good_steps(trial_id(store)) | {"load": {"unreachable": True, "msg": "timed out"}, "evidence": {}}
    line = record(store, ended(store, steps, failure="Measure: timed out")).line
    assert (line.status, line.step, line.effect) == ("void", "load", "void")


def test_what_cannot_be_recorded_is_an_error(store: SweepStore) -> None:
    steps = good_steps(trial_id(store))
    with pytest.raises(StoreError, match="never claimed"):
        record(store, Ended("other-0001", item(), Steps.of(steps)))
    with pytest.raises(StoreError, match="claimed by lab1, not by lab2"):
        record(store, ended(store, steps, host="lab2"))
    record(store, ended(store, steps))
    with pytest.raises(StoreError, match="on record already"):
        record(store, ended(store, steps))
    assert len(store.read_trials().lines) == 2


def test_a_worker_that_outlives_its_run_records_nothing(store: SweepStore) -> None:
    path = store.folder / "trials.jsonl"
    (line,) = store.read_trials().lines
    gone = msgspec.structs.replace(line, controller=msgspec.structs.replace(line.controller, pid_start=1))
    path.write_bytes(msgspec.json.encode(gone) + b"\n")
    with pytest.raises(StoreError, match=r"-0001 is not recorded: the run that claimed it .* is gone"):
        record(store, ended(store, good_steps(trial_id(store))))
    assert store.read_trials().finished == {}
    assert store.read_measurements() == ()


def test_a_full_disk_leaves_no_verdict_and_earlier_lines_intact(store: SweepStore) -> None:
    before = store.trials_path.read_bytes()
    code = (
        "import json, resource, signal, sys\n"
        "from pathlib import Path\n"
        "from treeline.recording import record\n"
        "from treeline.store import StoreError, SweepStore\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "from test_recording import ended, good_steps, trial_id\n"
        "store = SweepStore(Path(sys.argv[1]))\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({len(before) + 50}, {len(before) + 50}))\n"
        "try:\n"
        "    record(store, ended(store, good_steps(trial_id(store))))\n"
        "except StoreError as error:\n"
        "    print(error)\n"
    )
    here = str(Path(__file__).parent)
    said = subprocess.run(
        [sys.executable, "-c", code, str(store.folder), here], capture_output=True, text=True, check=True
    )
    assert "the disk is full" in said.stdout
    assert store.trials_path.read_bytes() == before
    assert record(store, ended(store, good_steps(trial_id(store)))).line.status == "ok"
