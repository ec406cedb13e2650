"""The journal's output formats, what the engine's lines tell, and bounds on reading them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from treeline_target import journal, unitwatch


def entry(seconds: float, message: Any) -> dict[str, Any]:
    return {"__MONOTONIC_TIMESTAMP": str(int(seconds * 1e6)), "MESSAGE": message}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ([72, 105, 255], "Hi\ufffd"),
        (None, ""),
        (["first", "second"], "first"),
        ([], ""),
        (7, ""),
    ],
)
def test_messages_come_in_every_form(value: Any, text: str) -> None:
    assert journal.message({"MESSAGE": value}) == text


def test_lines_that_are_no_entries_are_left_out() -> None:
    lines = [b'{"MESSAGE": "a"}', b"", b"{broken", b"[1]", b'{"MESSAGE": "b"}']
    assert [journal.message(one) for one in journal.parse(lines)] == ["a", "b"]


NEWER = [
    entry(100.0, "Started the trial."),
    entry(100.5, "[2026-01-01 00:00:00 TP0] Init torch distributed begin."),
    entry(101.0, "[2026-01-01 00:00:00 TP0] Load weight begin. avail mem=265.99 GB"),
    entry(340, "[2026-01-01 00:00:00 TP0] Load weight end. elapsed=239 s, avail mem=100.00 GB"),
    entry(
        360.25,
        "[2026-01-01 00:00:00 TP0] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 9, KV size: 1 GB",
    ),
    entry(
        361, "[TP0] Capture draft decode CUDA graph begin. backend=full, num_tokens_per_req=8, avail mem=9 GB"
    ),
    entry(
        362,
        "[TP0] Capture target prefill CUDA graph begin. backend=full, num_tokens_per_req=99, avail mem=9 GB",
    ),
    entry(
        363,
        "[TP0] Capture target verify CUDA graph begin. backend=full, num_tokens_per_req=17, avail mem=9 GB",
    ),
    entry(369, "[TP0] max_total_num_tokens=9, chunked_prefill_size=8192"),
    entry(370, "INFO:     Application startup complete."),
    entry(370.5, 'INFO:     127.0.0.1:1 - "GET /model_info HTTP/1.1" 200 OK'),
    entry(371, "The server is fired up and ready to roll!"),
]


def test_phases_stand_at_their_first_line() -> None:
    assert journal.log_facts(NEWER).phases == {
        "dist_init": 0.5,
        "weights": 1.0,
        "kv_pool": 240.0,
        "graph_capture": 261.0,
        "http": 269.0,
        "warmup": 270.5,
        "serving": 271.0,
    }


def test_the_width_is_that_of_the_targets_verify_graph() -> None:
    assert journal.log_facts(NEWER).captured_width == 17
    assert journal.log_facts(reversed(NEWER)).captured_width == 17


@pytest.mark.parametrize(
    ("line", "width"),
    [
        ("Capture target decode CUDA graph begin. backend=full, num_tokens_per_bs=9, avail mem=1", 9),
        ("Capture cuda graph begin. This can take up to several minutes. num_tokens_per_req=9", 9),
        ("Capture cuda graph begin. This can take up to several minutes. avail mem=1", None),
        ("Capture draft verify CUDA graph begin. backend=full, num_tokens_per_req=8", None),
        ("Capture DDTREE verify CUDA graph begin. backend=full, num_tokens_per_req=17, avail mem=1", 17),
        ("Capture piecewise CUDA graph begin. num_tokens_per_req=4, avail mem=1", None),
        ("\x1b[32mCapture target \x1b[0mverify CUDA graph begin. num_tokens_per_req=17", 17),
        ("Capture cuda graph begin.\nthe model wrote: num_tokens_per_req=5", None),
        ("the model wrote: num_tokens_per_req=5", None),
    ],
)
def test_widths_of_other_versions(line: str, width: int | None) -> None:
    facts = journal.log_facts([entry(1, line)])
    assert facts.captured_width == width


def test_the_phase_reached_is_the_last_one_entered() -> None:
    again = entry(341, "[2026-01-01 00:00:00 TP0] Load weight begin. avail mem=100.00 GB")  # the draft's
    assert journal.log_facts([*NEWER[:4], again]).reached == "weights"
    late = entry(372, "[2026-01-01 00:00:00 TP7] Load weight end. elapsed=239 s")
    assert journal.log_facts([*NEWER, late]).reached == "serving"
    stopping = entry(373, "Stopping the trial...") | {"_PID": "1", "SYSLOG_IDENTIFIER": "systemd"}
    assert journal.log_facts([*NEWER, stopping]).reached == "shutdown"


def test_an_empty_log_has_no_facts() -> None:
    assert journal.log_facts([]) == journal.LogFacts({}, None)


def test_reading_is_bounded_and_failures_are_named(tmp_path: Path) -> None:
    assert journal.entries(["--directory", str(tmp_path)], 20) == []
    with pytest.raises(journal.JournalError, match="did not end within 0 s"):
        journal.entries(["--directory", str(tmp_path)], 0)
    with pytest.raises(journal.JournalError, match="exited 1"):
        journal.entries(["this is no match"], 20)


def test_a_missing_journalctl_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(journal.JournalError, match="not installed"):
        journal.entries([], 1)


def test_times_are_given_to_the_microsecond() -> None:
    assert journal.since(1_767_225_600_000_001) == "--since=@1767225600.000001"


SHOWN = {
    "LoadState": "loaded",
    "ActiveState": "failed",
    "SubState": "failed",
    "Result": "signal",
    "InvocationID": "a" * 32,
    "MainPID": "0",
    "Job": "",
    "ExecMainCode": "2",
    "ExecMainStatus": "9",
    "InactiveEnterTimestampMonotonic": "12345678",
    "ActiveEnterTimestampMonotonic": "0",
}


def test_a_state_is_read_as_systemd_shows_it() -> None:
    state = unitwatch.parse_state(SHOWN)
    assert (state.main_pid, state.exec_main_code, state.exec_main_status) == (0, "killed", 9)
    assert (state.inactive_enter_monotonic, state.active_enter_monotonic) == (12.345678, None)
    assert (state.running, state.ended, state.job_pending) == (False, True, False)
    assert json.loads(json.dumps(state.as_dict()))["result"] == "signal"
    assert unitwatch.parse_state({}).invocation_id == ""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "the unit is failed (Result=signal, killed, status 9)"),
        ({"ActiveState": "active"}, None),
        ({"ActiveState": "activating"}, None),
        ({"ActiveState": "deactivating"}, None),
        ({"InvocationID": "b" * 32, "ActiveState": "active"}, "another invocation"),
        ({"InvocationID": "", "ActiveState": "inactive"}, "systemd has let go of it"),
    ],
)
def test_why_a_life_is_over(changes: dict[str, str], words: str | None) -> None:
    why = unitwatch.why_over(unitwatch.parse_state({**SHOWN, **changes}), "a" * 32)
    assert why is None if words is None else words in str(why)
