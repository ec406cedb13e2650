"""Failure events: classification, rendering, revision, and a file that takes no harm."""

from __future__ import annotations

from pathlib import Path

import pytest
from treeline.events import EventLog, Place, append_event, describe, read_events, render, revise
from treeline.failures import Capture
from treeline.store import StoreError

PLACE = Place("sweep.yml", "Sweep", "Wait until it serves", "/x/trial.yml:3", "treeline_ready", "lab1")
COPY = Place("deploy.yml", "Deploy", "Copy the unit", "/x/d.yml:9", "ansible.builtin.copy", "lab1")


def test_text_of_a_result_is_classified_and_said_so() -> None:
    event = describe(
        "failed", COPY, {"msg": "non-zero", "stderr": "OSError: No space left on device"}, event_id="1"
    )
    assert (event.class_, event.basis) == ("disk_full", "stderr")
    event = describe("failed", COPY, {"msg": "Permission denied"}, event_id="1")
    assert (event.class_, event.basis) == ("unknown", "no known class in task message")


def test_fields_of_our_own_modules_are_not_guessed_at() -> None:
    result = {
        "outcome": "died",
        "msg": "died; CUDA out of memory",
        "exec_main_status": 9,
        "server_info": {"a": 1},
    }
    event = describe("failed", PLACE, result, event_id="1")
    assert event.class_ is None
    assert event.basis == "fields of the result"
    assert event.fields == {"outcome": "died", "exec_main_status": 9}


def test_a_censored_result_shows_nothing() -> None:
    result = {"censored": "hidden", "stderr": "secret", "rc": 3, "item": "secret"}
    event = describe("item_failed", COPY, result, event_id="1")
    assert (event.msg, event.basis, event.fields, event.item) == (
        "hidden (no_log)",
        "hidden by no_log",
        {},
        None,
    )


def test_a_rendered_line_is_one_line_without_control_characters() -> None:
    event = describe(
        "failed", COPY, {"msg": "first\nsecond \x1b[31mred\x1b[0m \x07" + "x" * 900}, event_id="1"
    )
    line = render(event)
    assert line.startswith("treeline: lab1: failed, cause unknown (task 'Copy the unit'; basis: ")
    assert "no known class in task message): first second red x" in line
    assert line.isprintable()
    assert len(line) <= 300


def test_an_event_takes_its_class_from_the_record() -> None:
    event = describe("failed", PLACE, {"outcome": "died", "msg": "it died"}, event_id="1", trial_id="t-1")
    record = {
        "status": "crash",
        "class": "illegal_address",
        "phase": "graph_capture",
        "first_error": "RuntimeError",
    }
    revised = revise(event, record, "2")
    assert render(revised) == (
        "treeline: lab1: crash illegal_address in graph_capture (task 'Wait until it serves';"
        " basis: record of the trial): RuntimeError"
    )
    assert (revised.revises, revised.basis) == ("1", "record of the trial")


def test_a_file_gives_each_failure_once_in_its_latest_form(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    event = describe("failed", PLACE, {"outcome": "died", "msg": "it died"}, event_id="1")
    append_event(path, event)
    append_event(path, describe("unreachable", COPY, {"msg": "gone"}, event_id="2"))
    append_event(path, revise(event, {"status": "crash"}, "3"))
    with path.open("a", encoding="utf-8") as stream:
        stream.write('{"torn')
    assert [(event.event_id, event.status) for event in read_events(path)] == [("2", None), ("3", "crash")]


def test_a_line_that_is_no_event_is_named(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"a": 1}\n{"b": 2}\n', encoding="utf-8")
    with pytest.raises(StoreError, match=r"events\.jsonl: line 1 is no event"):
        read_events(path)


def test_events_wait_for_their_file_and_a_failing_one_is_counted(tmp_path: Path) -> None:
    log = EventLog()
    said: list[str] = []
    capture = Capture(log, said.append)
    capture.failure("failed", COPY, {"msg": "one"}, task_id="a")
    assert log.waiting
    (tmp_path / "sweep").mkdir()
    capture.success("treeline_sweep", "localhost", {"sweep_dir": str(tmp_path / "sweep")})
    capture.failure("failed", COPY, {"msg": "two"}, task_id="b")
    assert [event.msg for event in read_events(tmp_path / "sweep" / "events.jsonl")] == ["one", "two"]
    assert capture.finish(tmp_path / "unused.jsonl") == []
    assert not (tmp_path / "unused.jsonl").exists()
    assert len(said) == 2

    (tmp_path / "file").touch()
    broken = Capture(EventLog(tmp_path / "file" / "events.jsonl"), said.append)
    broken.failure("failed", COPY, {"msg": "three"}, task_id="c")
    (line,) = broken.finish(tmp_path / "unused.jsonl")
    assert "1 failure events could not be written" in line


def test_a_trial_without_a_record_still_prints_its_failure(tmp_path: Path) -> None:
    said: list[str] = []
    capture = Capture(EventLog(tmp_path / "events.jsonl"), said.append)
    capture.success("treeline_claim", "lab1", {"state": "item", "trial_id": "t-1"})
    capture.failure("failed", PLACE, {"outcome": "died", "msg": "it died"}, task_id="a")
    assert said == []
    assert len(read_events(tmp_path / "events.jsonl")) == 1, "written at once, whatever happens next"
    capture.success("treeline_record", "lab2", {"record": {"trial_id": "t-2", "status": "crash"}})
    assert said == []
    record = Place("sweep.yml", "Sweep", "Record", "", "treeline_record", "lab1")
    capture.failure("failed", record, {"msg": "the disk is full"}, task_id="b")
    assert len(said) == 2
    assert "it died" in said[0]
