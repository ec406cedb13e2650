"""Sweeps that run to their end: statuses, the proof that a trial measured its own process, and the way back.

The `alpha` fixture compares the found service before and after each test.
"""

from __future__ import annotations

import csv
import json

from harness import ENGINE, QUICK, Target


def proven(trial: dict) -> tuple[str, str, int]:
    """What identifies the process that a trial measured; fails when the record does not prove it."""
    assert trial["proof"]["trial_id_in_env"] == trial["trial_id"], trial["proof"]
    assert trial["invocation_id"] != trial["previous_invocation_id"]
    return trial["trial_id"], trial["invocation_id"], trial["main_pid"]


def test_budget_32_is_garbled_recorded_and_exits_zero(alpha: Target) -> None:
    # Nothing is accepted, so every answer takes many steps; simulated in a quarter of their time.
    engine = ENGINE | {"decode-time-scale": 0.25}
    output = alpha.run("sweep.yml", budget="32", treeline_max_tokens=24, sglang_ddtree_extra_args=engine)
    (trial,) = alpha.finished()
    assert (trial["status"], trial["class"], trial["phase"]) == ("garbled", "silent_corruption", "serving")
    assert trial["effect"] == "bad"
    assert trial["served"]["speculative_ddtree_budget"] == 32
    assert trial["engine"] == "reference"
    assert trial["simulated"] is True
    proven(trial)
    failed = {gate["name"] for gate in trial["gates"] if gate["verdict"] == "failed"}
    assert len(failed) >= 2, "acceptance and correctness are separate axes, both see this one"
    assert "garbled" in output
    assert "simulated timing" in output
    (evidence,) = [path for path in alpha.results.glob("*/evidence/*") if path.is_dir()]
    assert {"journal.jsonl.gz", "show.txt", "unit.service"} <= {path.name for path in evidence.iterdir()}
    assert list(alpha.results.glob("*/requests/*.parquet"))


def test_eager_budget_16_is_ok(alpha: Target) -> None:
    alpha.run("sweep.yml", budget="16", graphs="off", **QUICK)
    (trial,) = alpha.finished()
    assert trial["status"] == "ok"
    assert trial["al"] > 2.0
    assert trial["key"]["graphs"] is False


def test_a_grid_of_four_and_its_files(alpha: Target) -> None:
    output = alpha.run("sweep.yml", budget="8,16", maxreq="64,128", treeline_report_page=True, **QUICK)
    trials = {(t["key"]["budget"], t["key"]["maxreq"]): t for t in alpha.finished("explore")}
    assert {cell: (t["status"], t["class"]) for cell, t in trials.items()} == {
        (8, 64): ("ok", "ok"),
        (8, 128): ("ok", "ok"),
        (16, 64): ("crash", "illegal_address"),
        (16, 128): ("crash", "cublas_execution_failed"),
    }
    crash = trials[(16, 64)]
    assert (crash["phase"], crash["captured_bs"], crash["rows"]) == ("graph_capture", 64, 1088)
    assert "illegal memory access" in crash["first_error"]
    assert len({proven(t)[1] for t in trials.values() if t["status"] == "ok"}) == 2
    assert "trial 4 of 4" in output
    (page,) = alpha.results.glob("*/report.html")
    assert "illegal memory access" in page.read_text(encoding="utf-8")
    (summary,) = alpha.results.glob("*/summary.csv")
    rows = list(csv.DictReader(summary.open(encoding="utf-8")))
    assert len(rows) == 4
    assert {
        "budget",
        "topk",
        "maxreq",
        "graphs",
        "rows",
        "status",
        "class",
        "phase",
        "AL",
        "evidence",
    } <= set(rows[0])
    assert (summary.parent / "summary.md").is_file()
    events = [json.loads(line) for line in (summary.parent / "events.jsonl").read_text().splitlines()]
    assert {"illegal_address", "cublas_execution_failed"} <= {event["class"] for event in events}


def test_identical_trials_each_measure_their_own_process(alpha: Target) -> None:
    alpha.run("sweep.yml", budget="8", maxreq="16", **QUICK)
    alpha.run("sweep.yml", budget="8", maxreq="16", **QUICK)
    first, second = alpha.finished()
    assert first["status"] == second["status"] == "ok"
    assert first["key"] == second["key"]
    assert all(a != b for a, b in zip(proven(first), proven(second), strict=True))


def test_fail_on_bad_makes_bad_trials_exit_non_zero(alpha: Target) -> None:
    output = alpha.run("sweep.yml", expect=2, budget="16", maxreq="64", fail_on_bad="true", **QUICK)
    assert "fail_on_bad" in output
    (trial,) = alpha.finished("explore")
    assert trial["status"] == "crash"


def test_two_hosts_share_one_plan(target: Target) -> None:
    target.run("sweep.yml", budget="4,8", maxreq="8,16", **QUICK)
    trials = target.finished("explore")
    assert sorted((t["key"]["budget"], t["key"]["maxreq"]) for t in trials) == [
        (4, 8),
        (4, 16),
        (8, 8),
        (8, 16),
    ]
    assert {t["host"] for t in trials} == {"alpha", "beta"}
