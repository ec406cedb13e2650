"""The callback plugin under a real ansible-playbook: what it writes, what it prints, what it must not do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from plays import ROOT, SWEEP, lines, play, stand_ins
from treeline.live.steps import steps_left


def of(events: list[dict[str, Any]], task: str, kind: str = "failed") -> list[dict[str, Any]]:
    return [event for event in events if event["task"] == task and event["kind"] == kind]


def test_a_failure_carries_class_basis_and_place(run: tuple[Path, str, list[dict[str, Any]]]) -> None:
    folder, output, events = run
    (event,) = of(events, "Engine dies")
    assert event["class"] == "illegal_address"
    assert event["basis"] == "stderr"
    assert event["finding"]["kind"] == "config"
    assert "illegal memory access" in event["finding"]["first_error"]
    assert event["rescued"] is True
    assert event["ignored"] is False
    assert event["host"] == "near"
    assert event["play"] == "Everything that can go wrong"
    assert event["playbook"] == "play.yml"
    assert event["task_path"].startswith(str(folder / "play.yml"))
    assert event["schema_version"] == 1
    assert "treeline: near: failed illegal_address (task 'Engine dies', rescued; basis: stderr):" in output


def test_a_failure_in_a_rescue_section_is_not_rescued(run: tuple[Path, str, list[dict[str, Any]]]) -> None:
    (event,) = of(run[2], "Fails in the rescue section")
    assert event["rescued"] is False
    assert event["ignored"] is True


def test_every_retry_is_kept_and_the_first_is_printed(run: tuple[Path, str, list[dict[str, Any]]]) -> None:
    _, output, events = run
    assert [event["attempt"] for event in of(events, "Retried", "retry")] == [1, 2]
    assert len(of(events, "Retried")) == 1
    assert output.count("treeline: near: retry 1 of 2, cause unknown (task 'Retried'") == 1
    assert "treeline: near: retry 2 of 2" not in output


def test_loop_items_and_the_loop(run: tuple[Path, str, list[dict[str, Any]]]) -> None:
    (item,) = of(run[2], "Looped", "item_failed")
    assert item["item"] == "3"
    assert len(of(run[2], "Looped")) == 1


def test_no_log_is_never_read(run: tuple[Path, str, list[dict[str, Any]]]) -> None:
    folder, output, events = run
    (event,) = of(events, "Secret")
    assert event["msg"] == "hidden (no_log)"
    assert event["basis"] == "hidden by no_log"
    assert "hunter2" not in output + (folder / "results" / "events.jsonl").read_text()


def test_async_handler_unreachable_and_soft_tasks(run: tuple[Path, str, list[dict[str, Any]]]) -> None:
    _, output, events = run
    (asynchronous,) = of(events, "Async")
    assert asynchronous["async_job_id"]
    (handler,) = of(events, "Broken handler")
    assert handler["handler"] is True
    assert handler["rescued"] is None
    assert (
        "treeline: near: failed, cause unknown (handler 'Broken handler'; basis: no known class in" in output
    )
    (unreachable,) = of(events, "Ask it", "unreachable")
    assert unreachable["host"] == "away"
    assert unreachable["ignored"] is True
    assert (unreachable["class"], unreachable["basis"]) == (None, "the host did not answer")
    assert not of(events, "Soft")


def test_a_sweep_gets_its_events_and_trials_their_class(tmp_path: Path) -> None:
    done = play(tmp_path, SWEEP, "-e", f"folder={tmp_path}", ANSIBLE_ACTION_PLUGINS=stand_ins(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (tmp_path / "results").exists()
    before, first, verdict, second = lines(tmp_path / "sweep" / "events.jsonl")
    assert before["task"] == "Before the sweep is open"
    assert before["trial_id"] is None
    assert (first["trial_id"], first["class"]) == ("t-0001", None)
    assert first["fields"] == {"outcome": "died", "exec_main_status": 9}
    assert (verdict["status"], verdict["class"], verdict["phase"]) == (
        "crash",
        "illegal_address",
        "graph_capture",
    )
    assert verdict["revises"] == first["event_id"]
    assert second["trial_id"] == "t-0002"
    assert (
        "localhost: crash illegal_address in graph_capture (task 'Ready', ignored;"
        " basis: record of the trial): RuntimeError: x" in done.stdout
    )
    assert done.stdout.count("(task 'Ready'") == 1
    assert steps_left(tmp_path / "sweep")["localhost"].task == "Ready again"
    assert "(task 'Ready again', ignored; basis: fields of the result): not ready" in done.stdout


def test_the_file_can_be_chosen_and_quiet_prints_nothing(tmp_path: Path) -> None:
    chosen = tmp_path / "elsewhere" / "e.jsonl"
    playbook = SWEEP.split("    - name: Open")[0]
    done = play(tmp_path, playbook, TREELINE_EVENTS_FILE=str(chosen), TREELINE_FAILURES_QUIET="true")
    assert [event["kind"] for event in lines(chosen)] == ["failed"]
    assert "treeline:" not in done.stdout
    assert not (tmp_path / "results").exists()
    assert not list(tmp_path.rglob("*.xml")), "a JUnit file is written on demand only"


def test_files_that_cannot_be_written_cost_no_play(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    playbook = SWEEP.split("    - name: Open")[0]
    done = play(
        tmp_path,
        playbook,
        TREELINE_EVENTS_FILE=str(tmp_path / "file" / "e.jsonl"),
        TREELINE_JUNIT_FILE=str(tmp_path / "file" / "junit.xml"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = " ".join((done.stdout + done.stderr).split())
    assert "1 failure events could not be written" in said
    assert "the JUnit file" in said
    assert "was not written" in said


def test_ansible_doc_knows_the_plugin() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).with_name("ansible-doc")), "-t", "callback", "treeline_failures"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "events_file" in done.stdout
    assert "TREELINE_EVENTS_FILE" in done.stdout
    assert "TREELINE_JUNIT_FILE" in done.stdout
