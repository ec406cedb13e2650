"""Reading journals: byte arrays, cut and null messages, control characters, line numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import ARGS, CRASH, DIED, LOADED, SERVING, STARTED, decode, entry, systemd, text
from treeline.signatures import classify_journal
from treeline.signatures.journal import Journal
from treeline.signatures.source import Thinned, clean

ILLEGAL = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"


def test_a_cut_entry_is_joined_with_the_rest_of_its_process() -> None:
    lines = [
        systemd(STARTED),
        entry(ARGS),
        entry("x" * 900 + " CUDA error: an illeg", _LINE_BREAK="line-max"),
        entry("another process meanwhile", pid=4712),
        entry("al memory access was encountered"),
        systemd(DIED[0]),
    ]
    verdict = classify_journal(lines, alive=False)
    assert verdict.class_ == "illegal_address"
    assert verdict.first_error is not None
    assert verdict.first_error.endswith("CUDA error: an illegal memory access was encountered")
    assert len(verdict.first_error) <= 500


def test_byte_arrays_are_read_and_cleaned() -> None:
    coloured = list(b"\x1b[31mRuntimeError\x1b[0m: CUDA error: an illegal memory access was encountered \xff")
    bar = list(
        b"\rCapturing batches (bs=64 avail_mem=1 GB): 0%\rCapturing batches (bs=32 avail_mem=1 GB): 9%"
    )
    begin = "[2026-03-04 10:00:04 TP3] Capture target verify CUDA graph begin. num_tokens_per_req=17"
    lines = [systemd(STARTED), entry(begin), entry(bar), entry(CRASH), entry(coloured), systemd(DIED[0])]
    verdict = classify_journal(lines, alive=False)
    assert (verdict.class_, verdict.phase, verdict.captured_bs, verdict.rank) == (
        "illegal_address",
        "graph_capture",
        32,
        3,
    )
    assert verdict.first_error == "RuntimeError: CUDA error: an illegal memory access was encountered \ufffd"


def test_a_finished_capture_leaves_no_batch_size() -> None:
    bars = ["Capturing batches (bs=1 avail_mem=1 GB): 100%"]
    begin = "[2026-03-04 10:00:04 TP0] Capture {} CUDA graph begin. backend=full, num_tokens_per_req={}"
    end = "[2026-03-04 10:00:05 TP0] Capture target verify CUDA graph end. bs=[1], elapsed=1 s"
    lines = [
        f"systemd: {STARTED}",
        begin.format("target verify", 17),
        *bars,
        end,
        begin.format("draft decode", 1),
    ]
    verdict = classify_journal(text(*lines, CRASH, ILLEGAL, f"systemd: {DIED[0]}"), alive=False)
    assert (verdict.phase, verdict.captured_bs, verdict.captured_width) == ("graph_capture", None, 17)


def test_lost_lines_are_counted() -> None:
    dropped = entry(
        "Suppressed 12 messages from x.service", SYSLOG_IDENTIFIER="systemd-journald", invocation="c" * 32
    )
    lines = [
        systemd(STARTED),
        entry(ARGS),
        entry(None).replace("}", ',"MESSAGE":null}'),
        '{"torn": "error',
        dropped,
    ]
    assert classify_journal(lines, alive=True).lost_lines == 14
    blob = text(f"systemd: {STARTED}", "[165B blob data]")
    assert classify_journal(blob, alive=True).lost_lines == 1


def test_the_rank_comes_from_another_line_of_the_process() -> None:
    lines = [
        systemd(STARTED),
        entry("[2026-03-04 10:00:00 TP5] Init torch distributed begin.", pid=9),
        entry(ARGS),
    ]
    lines += [entry(ILLEGAL, pid=9), systemd(DIED[0])]
    assert classify_journal(lines, alive=False).rank == 5


def test_a_thinned_journal_knows_its_line_numbers(tmp_path: Path) -> None:
    busy = [decode(4.5)] * 3000
    lines = text(f"systemd: {STARTED}", ARGS, *LOADED, *SERVING, *busy, CRASH, ILLEGAL, f"systemd: {DIED[0]}")
    path = tmp_path / "journal"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    verdict = classify_journal(path, alive=False)
    assert verdict.first_error_line_no == lines.index(next(line for line in lines if ILLEGAL in line)) + 1
    assert (verdict.phase, verdict.lines, len(verdict.accept_lens)) == ("serving", len(lines), 3000)


def test_an_error_inside_an_ordinary_line_is_seen() -> None:
    mixed = decode(4.5) + "RuntimeError: CUDA error: misaligned address"
    lines = text(f"systemd: {STARTED}", ARGS, *LOADED, *SERVING, mixed, f"systemd: {DIED[0]}")
    assert classify_journal(lines, alive=False).class_ == "misaligned"


@pytest.mark.parametrize("lines", [[], [""], ["\x00\xff"], ["{"], ['{"MESSAGE": 7}'], [b"\xff\xfe\n"]])
def test_odd_input_is_an_unknown_death_and_never_an_error(lines: list[str | bytes]) -> None:
    assert classify_journal(lines, alive=False).class_ == "unknown"
    assert classify_journal(lines, alive=True).class_ == "ok"


def test_json_that_is_no_journal_is_read_as_text() -> None:
    assert classify_journal(['{"error": "No space left on device"}'], alive=False).class_ == "disk_full"


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from([decode(1.0), "x", "", ARGS, decode(2.0) + "error"]), max_size=60),
    st.integers(0, 59),
)
def test_thinning_keeps_every_other_line_and_its_number(lines: list[str], index: int) -> None:
    lines = [*lines, "the end"]  # a newline at the very end would begin no line
    full = "\n".join(lines).encode()
    thinned = Thinned(full)
    kept = [line for line in lines if "Decode batch" not in line or "error" in line]
    assert thinned.data == "\n".join(kept).encode()
    if index < len(kept):
        offset = sum(len(line) + 1 for line in kept[:index])
        number = thinned.line_number(offset)
        assert lines[number - 1] == kept[index]
        begin = thinned.full_offset(offset)
        assert full[begin:].startswith(kept[index].encode())


@given(st.text())
def test_clean_text_has_no_control_characters(value: str) -> None:
    cleaned = clean(value).replace("\n", "")
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in cleaned)


def test_offsets_by_time_in_text_and_json() -> None:
    journal = Journal("\n".join(text("a", "b", "c", "d")).encode())
    first, last = journal.start_at, journal.offset_at(None)
    assert first is not None
    assert last == len(journal.data)
    assert journal.data[journal.offset_at(first + 1_000_000) :].split(b"\n")[0].endswith(b" c")
    assert journal.offset_at(first + 99_000_000) == len(journal.data)
