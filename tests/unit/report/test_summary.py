"""The summary of a sweep: its rows, its files, its table, at any time of the sweep's life."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sweeps import ALIVE, DEAD, SWEEP_ID, SweepFolder, item
from treeline.events import Place, append_event, describe
from treeline.records import HostState, Run
from treeline.report.frame import trials_frame
from treeline.report.summary import write_summary
from treeline.report.table import escape_markdown
from treeline.store import StoreError

CRASH: dict[str, Any] = {
    "class_": "illegal_address", "phase": "graph_capture", "step": "ready", "kind": "config", "effect": "bad",
    "first_error": "RuntimeError: CUDA error: an illegal memory access\x1b[31m was <b>encountered</b> | `x`",
    "rank": 2, "captured_bs": 64, "advice": "Try graphs=off.",
}  # fmt: skip
GOOD: dict[str, Any] = {"class_": "ok", "phase": "serving", "al": 4.512345}


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture
def sweep(tmp_path: Path) -> SweepFolder:
    """Return a sweep with every sort of trial: good, crashed, repeated, interrupted, under way, not begun."""
    plan = [item(8), item(8, 128), item(16), item(32), item(64)]
    folder = SweepFolder(tmp_path / SWEEP_ID, *plan)
    folder.run(plan[1], "crash", **CRASH)
    folder.run(plan[0], **GOOD, throughput={"1": 303.126, "128": 4723.0})
    folder.start(plan[2])
    folder.run(plan[2], **GOOD, throughput={"1": 300.0, "8": None})
    folder.run(item(16, purpose="retry"), "timeout")
    folder.start(plan[3], controller=ALIVE)
    return folder


def test_csv_has_the_promised_columns_in_the_order_of_the_plan(sweep: SweepFolder) -> None:
    summary = write_summary(sweep.folder)
    table = rows(summary.csv)
    assert ",".join(table[0]) == (
        "budget,topk,maxreq,graphs,rows,status,class,phase,AL,tok_s_c1,tok_s_c8,tok_s_c128,"
        "evidence,host,trial_id,engine,simulated,extrapolated"
    )
    assert [(row["budget"], row["maxreq"], row["status"]) for row in table] == [
        ("8", "64", "ok"),
        ("8", "128", "crash"),
        ("16", "64", "ok"),
        ("32", "64", "running"),
    ]
    good, crash = table[0], table[1]
    assert (good["graphs"], good["rows"], good["AL"]) == ("on", "576", "4.5123")
    assert (good["tok_s_c1"], good["tok_s_c128"], good["tok_s_c8"]) == ("303.13", "4723.0", "")
    assert (crash["class"], crash["phase"], crash["AL"]) == ("illegal_address", "graph_capture", "")
    assert crash["evidence"] == f"evidence/{SWEEP_ID}-0001"
    assert summary.counts == {"ok": 2, "crash": 1, "running": 1}


def test_repeats_and_interrupted_attempts_are_kept_apart_and_not_dropped(sweep: SweepFolder) -> None:
    summary = write_summary(sweep.folder)
    other = rows(sweep.folder / "summary-other.csv")
    assert [(row["budget"], row["status"]) for row in other] == [("16", "interrupted"), ("16", "timeout")]
    assert "Repeats and other trials" in summary.table
    assert "1 not begun" in summary.table


def test_an_interrupted_attempt_speaks_for_its_item_only_without_a_verdict(tmp_path: Path) -> None:
    plan = [item(8), item(16)]
    folder = SweepFolder(tmp_path / "s", *plan)
    folder.run(plan[0], "crash", **CRASH)
    folder.start(plan[0], controller=DEAD)
    folder.start(plan[1], controller=DEAD)
    assert [row["status"] for row in rows(write_summary(folder.folder).csv)] == ["crash", "interrupted"]


def test_markdown_shows_log_text_as_text(sweep: SweepFolder) -> None:
    text = write_summary(sweep.folder).markdown.read_text(encoding="utf-8")
    assert text.startswith(f"# Sweep {SWEEP_ID}")
    assert "| 8 | 8 | 128 | on | 1152 | crash | illegal\\_address | graph\\_capture |" in text
    assert "    RuntimeError: CUDA error: an illegal memory access was <b>encountered</b> | `x`" in text
    assert "Try: Try graphs=off." in text
    assert "\x1b" not in text
    assert "8x B300" in text
    assert "- state: unfinished" in text
    assert "- lab1: not known: the last run has not closed" in text
    assert "budget 8 topk 8 maxreq 128 graphs on" in text
    assert "crash illegal\\_address in graph\\_capture (rank 2, captured bs 64)" in text


def test_the_terminal_table_is_plain_and_whole(sweep: SweepFolder) -> None:
    table = write_summary(sweep.folder, width=40).table
    assert "\x1b" not in table
    assert table.splitlines()[0] == f"sweep {SWEEP_ID} on lab1"
    line = next(line for line in table.splitlines() if "illegal_address" in line and "1152" in line)
    assert line.split() == [
        "8",
        "8",
        "128",
        "on",
        "1152",
        "crash",
        "illegal_address",
        "graph_capture",
    ]
    assert "trial 0001, budget 8 topk 8 maxreq 128 graphs on: crash illegal_address in graph_capture" in table
    assert "      try: Try graphs=off." in table.splitlines()
    wide = write_summary(sweep.folder, width=200).table
    assert next(line for line in wide.splitlines() if "1152" in line).endswith(" 0001")
    assert "\x1b[32m" in write_summary(sweep.folder, color=True).table


def test_simulated_timing_is_said_everywhere(tmp_path: Path) -> None:
    folder = SweepFolder(tmp_path / "s", item(64))
    folder.run(
        item(64), "garbled", class_="silent_corruption", engine="reference", simulated=True, extrapolated=True
    )
    summary = write_summary(folder.folder)
    assert "simulated timing" in summary.table
    text = summary.markdown.read_text(encoding="utf-8")
    assert "engine=reference, simulated timing" in text
    mark = "* behind a status: extrapolated, never observed in the field"
    assert mark in summary.table
    assert f"\\{mark}." in text
    assert "| 64 | 8 | 64 | on | 4160 | garbled\\* | silent\\_corruption |" in text
    shown = next(line for line in summary.table.splitlines() if "4160" in line)
    assert shown.split()[5:7] == ["garbled*", "silent_corruption"]
    (row,) = rows(summary.csv)
    assert (row["engine"], row["simulated"], row["extrapolated"]) == ("reference", "True", "True")


def test_an_empty_sweep_and_a_torn_line_do_no_harm(tmp_path: Path) -> None:
    folder = SweepFolder(tmp_path / "s", item(8))
    summary = write_summary(folder.folder)
    assert rows(summary.csv) == []
    assert "0 of 1 items: none yet; 1 not begun" in summary.table
    folder.run(item(8), **GOOD)
    with (folder.folder / "trials.jsonl").open("a", encoding="utf-8") as stream:
        stream.write('{"event":"star')
    (folder.folder / "events.jsonl").write_text("no json\nno json\n", encoding="utf-8")
    assert write_summary(folder.folder).trials == 1


def test_swept_key_columns_beyond_the_usual_appear(tmp_path: Path) -> None:
    plan = [item(8), item(8, graph_max_bs=32), item(8, attention_backend="triton", graphs=False)]
    folder = SweepFolder(tmp_path / "s", *plan)
    for one in plan:
        folder.run(one, throughput={"8@4096": 10.0, "8@1024": 20.0})
    table = rows(write_summary(folder.folder).csv)
    assert [row["graph_max_bs"] for row in table] == ["", "32", ""]
    assert [row["attention_backend"] for row in table] == ["", "", "triton"]
    assert [row["graphs"] for row in table] == ["on", "on", "off"]
    assert [name for name in table[0] if name.startswith("tok")] == ["tok_s_c8_ctx1024", "tok_s_c8_ctx4096"]
    assert "block_size" not in table[0]


def test_failures_outside_trials_and_the_state_of_hosts_are_told(tmp_path: Path) -> None:
    reason = "lab1 is NOT restored: no answer. Run `ansible-playbook restore.yml` when it answers"
    ended = Run(
        controller=DEAD, started_at="x", ended_at="2026-01-01T02:00:00Z", outcome="incomplete", reason=reason
    )
    folder = SweepFolder(tmp_path / "s", item(8), runs=[ended])
    place = Place("sweep.yml", "Sweep", "Begin", "t.yml:1", "treeline_begin", "lab2")
    append_event(
        folder.folder / "events.jsonl", describe("unreachable", place, {"msg": "gone"}, event_id="1")
    )
    text = write_summary(folder.folder).markdown.read_text(encoding="utf-8")
    assert "lab2: unreachable (task 'Begin'): gone" in text
    assert "- lab1: not on record for each host; the last run ended with: lab1 is NOT restored: no" in text
    text = write_summary(folder.folder, hosts={"lab1": {"restored": True}}).markdown.read_text(
        encoding="utf-8"
    )
    assert "- lab1: restored\n" in text


def test_each_host_is_told_as_it_was_left(tmp_path: Path) -> None:
    hosts = {
        "lab1": HostState(restored=True),
        "lab2": HostState(reason="a.service is down; b.service is down", broke_off="Load: gone"),
        "lab3": HostState(touched=False, reason="no systemd as PID 1"),
    }
    ended = Run(controller=DEAD, started_at="x", ended_at="y", outcome="incomplete", hosts=hosts)
    folder = SweepFolder(tmp_path / "s", item(8), runs=[ended])
    stored = write_summary(folder.folder).markdown.read_text(encoding="utf-8")
    for line in (
        "- lab1: restored",
        "- lab2: NOT restored: a.service is down; b.service is down; it left the sweep early: Load: gone",
        "- lab3: not taken, so nothing had to be restored: no systemd as PID 1",
    ):
        assert line in stored.splitlines()
    given = {host: msgspec.to_builtins(state) for host, state in hosts.items()}
    assert write_summary(folder.folder, hosts=given).markdown.read_text(encoding="utf-8") == stored


def test_a_record_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    ended = Run(controller=DEAD, started_at="x", ended_at="y", outcome="complete", reason="a; b")
    folder = SweepFolder(tmp_path / "s", item(8), runs=[ended])
    path = folder.folder / "sweep.json"
    old = json.loads(path.read_text(encoding="utf-8"))
    del old["runs"][0]["hosts"]
    path.write_text(json.dumps(old), encoding="utf-8")
    text = write_summary(folder.folder).markdown.read_text(encoding="utf-8")
    assert "- lab1: not on record for each host; the last run ended with: a; b" in text


def test_cells_that_differ_in_a_rare_part_alone_have_different_names(tmp_path: Path) -> None:
    plan = [item(8, graph_max_bs=16), item(8, graph_max_bs=32), item(8, block_size=16)]
    folder = SweepFolder(tmp_path / "s", *plan)
    for one in plan:
        folder.run(one, "crash", **CRASH)
    summary = write_summary(folder.folder)
    text = summary.markdown.read_text(encoding="utf-8")
    for one in plan:
        assert text.count(f"### {one.key.label} (trial") == 1
        assert summary.table.count(f" {one.key.label}: crash") == 1


def test_several_hosts_are_named_in_the_table(tmp_path: Path) -> None:
    plan = [item(8), item(16)]
    folder = SweepFolder(tmp_path / "s", *plan)
    folder.run(plan[0], host="lab1")
    folder.run(plan[1], host="lab2")
    lines = write_summary(folder.folder, width=40).table.splitlines()
    assert lines[0] == f"sweep {SWEEP_ID}"
    assert [line.split()[-1] for line in lines if " on " in line] == ["lab1", "lab2"]


@pytest.mark.parametrize("columns", ["abc", "", "0", "-1", "90"])
def test_any_value_of_columns_is_borne(
    sweep: SweepFolder, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert "illegal_address" in write_summary(sweep.folder).table


def test_a_folder_without_a_sweep_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"sweep\.json cannot be read"):
        write_summary(tmp_path)


def test_frames_are_tidy(sweep: SweepFolder) -> None:
    frame = trials_frame(sweep.store.read_trials())
    assert len(frame) == 6
    assert frame["graph_max_bs"].isna().all()
    assert set(frame["purpose"]) == {"explore", "retry"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a|b", "a\\|b"),
        ("<script>", "&lt;script&gt;"),
        ("`x`\n*y*", "\\`x\\` \\*y\\*"),
        ("\x1b[31mred", "red"),
    ],
)
def test_markdown_escape(text: str, expected: str) -> None:
    assert escape_markdown(text) == expected
