"""Caps, kernel lines and what systemd's own lines tell; the whole is tested on lab hosts."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from treeline_target import evidence, journal, kernel_log, unitwatch

SPEC: dict[str, Any] = {
    "unit": "trial.service",
    "trial_id": "t",
    "out_dir": "/nowhere",
    "since_realtime_usec": 1,
    "previous_invocation_id": "b" * 32,
}
SECOND = 1_000_000


@given(
    lines=st.lists(st.binary(min_size=1, max_size=30), max_size=80),
    head=st.integers(1, 400),
    tail=st.integers(1, 400),
)
def test_a_flood_keeps_its_beginning_and_its_end(lines: list[bytes], head: int, tail: int) -> None:
    copy = evidence.JournalCopy()
    spec = evidence.Spec(**SPEC, head_bytes=head, tail_bytes=tail)
    kept = list(evidence._capped(iter(lines), copy, spec))
    assert len(kept) + copy.dropped == len(lines)
    assert kept == lines[: len(kept)] or kept[-1] == lines[-1]
    assert kept[:1] == lines[:1]
    if not copy.dropped:
        assert kept == lines
    assert sum(map(len, kept)) <= head + tail + 2 * 31


def systemd_line(message_id: str, invocation: str = "a" * 32, pid: str = "1") -> bytes:
    entry = {
        "MESSAGE": "Stopping the trial...",
        "MESSAGE_ID": message_id,
        "INVOCATION_ID": invocation,
        "_PID": pid,
        "__MONOTONIC_TIMESTAMP": "5000000",
    }
    return json.dumps(entry).encode()


@pytest.mark.parametrize(
    ("line", "stopped"),
    [
        (systemd_line(journal.MESSAGE_STOPPING), True),
        # A clean exit is a crash of the trial, not a stop by others.
        (systemd_line("7ad2d189f7e94e70a38c781354912448"), False),
        (systemd_line(journal.MESSAGE_STOPPING, pid="77"), False),
        (systemd_line(journal.MESSAGE_STOPPING, invocation="b" * 32), False),
        (b'{"MESSAGE": "Stopping the trial...", "_PID": "1"}', False),
    ],
)
def test_a_stop_is_one_that_systemd_was_ordered_to_make(line: bytes, stopped: bool) -> None:
    copy = evidence.JournalCopy()
    assert list(evidence._watched(iter([line]), copy, evidence.Spec(**SPEC))) == [line]
    assert copy.stopped_by_order is stopped


@pytest.mark.parametrize(
    ("fields", "belongs"),
    [
        ({"_SYSTEMD_INVOCATION_ID": "a" * 32}, True),
        ({"INVOCATION_ID": "a" * 32}, True),
        ({}, True),
        ({"_SYSTEMD_INVOCATION_ID": "b" * 32}, False),
        ({"INVOCATION_ID": "b" * 32}, False),
    ],
)
def test_lines_of_another_life_of_the_unit_are_left_out(fields: dict[str, str], belongs: bool) -> None:
    line = json.dumps({"MESSAGE": "x", **fields}, separators=(",", ":")).encode()
    assert evidence.belongs(line, "a" * 32) is belongs


def test_a_forgotten_life_ends_with_systemds_last_word() -> None:
    copy = evidence.JournalCopy(last_word_monotonic=5.0)
    gone = unitwatch.parse_state({"ActiveState": "inactive", "Result": "success", "ExecMainStatus": "0"})
    end = evidence._end(gone, "a" * 32, copy)
    assert (end["ours"], end["inactive_enter_monotonic"], end["exec_main_status"]) == (False, 5.0, None)
    alive = unitwatch.parse_state({"ActiveState": "active", "InvocationID": "a" * 32})
    assert evidence._end(alive, "a" * 32, copy)["inactive_enter_monotonic"] is None


@pytest.mark.parametrize(
    ("line", "seconds", "rest"),
    [
        ("2026-01-01T00:00:00Z kernel: x", 0, "kernel: x"),
        ("2026-01-01T00:00:00.25+00:00 x", 0.25, "x"),
        ("2026-01-01T01:00:00,5+0100 x", 0.5, "x"),
        ("2026-01-01 00:00:01 x", 1, "x"),
        ("2026-01-01T00:00:00.123456789Z x", 0.123456, "x"),
    ],
)
def test_stamps_of_a_stand_in_are_read(line: str, seconds: float, rest: str) -> None:
    new_year = 1_767_225_600
    assert kernel_log.split_stamp(line) == (round((new_year + seconds) * SECOND), rest)


@pytest.mark.parametrize("line", ["", "no stamp", "2026-13-01T00:00:00Z x", "[ 12.3] NVRM"])
def test_other_lines_have_no_stamp(line: str) -> None:
    assert kernel_log.split_stamp(line) == (None, line)


def test_kernel_lines_of_the_time_are_kept_and_labelled(tmp_path: Path) -> None:
    source, target = tmp_path / "kern.log", tmp_path / "kernel.jsonl.gz"
    source.write_text(
        "no stamp yet: NVRM: Xid\n"
        "2026-01-01T00:00:00Z NVRM: Xid (PCI:0000:70:00): 79, GPU has fallen off the bus.\n"
        "2026-01-01T00:00:10Z NVRM: Xid (PCI:0000:70:00): 31, pid=7, name=python3\n"
        "  continued: nvidia registers\n"
        "2026-01-01T00:00:11Z firewall: dropped a packet of 10.0.0.1\n"
        "2026-01-01T00:00:12Z Out of memory: Killed process 7 (python3)\n"
        "2026-01-01T00:01:00Z NVRM: Xid (PCI:0000:70:00): 13, later\n"
    )
    new_year = 1_767_225_600 * SECOND
    found = kernel_log.collect(target, str(source), new_year + 5 * SECOND, new_year + 20 * SECOND)
    with gzip.open(target, "rt") as stream:
        lines = [json.loads(line) for line in stream]
    assert [line["MESSAGE"].split()[0] for line in lines] == ["NVRM:", "continued:", "Out"]
    assert {line["TREELINE_SOURCE"] for line in lines} == {f"stand-in file {source}"}
    assert (found.lines, found.left_out, found.problem) == (3, 1, None)
    assert found.source == f"stand-in file {source}"


def test_no_kernel_log_and_a_missing_one_are_told_apart(tmp_path: Path) -> None:
    assert kernel_log.collect(tmp_path / "k.gz", "none", 0, 1) == kernel_log.Collected("none")
    assert not (tmp_path / "k.gz").exists()
    found = kernel_log.collect(tmp_path / "k.gz", str(tmp_path / "missing"), 0, 1)
    assert "No such file" in str(found.problem)
