"""Reading journals: byte arrays, cut and null messages, control characters, line numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from logs import ARGS, CRASH, DIED, LOADED, SERVING, STARTED, decode, entry, systemd, text
from treeline.signatures import classify_journal
from treeline.signatures.source import clean

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
    crash = CRASH.replace("TP0", "TP3")
    lines = [systemd(STARTED), entry(begin), entry(bar), entry(crash), entry(coloured), systemd(DIED[0])]
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


@pytest.mark.parametrize("before", ["", "DP1 ", "DP1 PP0 ATTN_CP7 MOE_DP12 "])
def test_the_rank_stands_among_those_of_other_kinds(before: str) -> None:
    line = f"[2026-03-04 10:00:07 {before}TP3 EP5] torch.OutOfMemoryError: CUDA out of memory."
    verdict = classify_journal([entry(ARGS), *map(entry, LOADED), entry(line), systemd(DIED[0])], alive=False)
    assert (verdict.class_, verdict.rank) == ("torch_oom", 3)


def test_the_rank_comes_from_another_line_of_the_process() -> None:
    lines = [
        systemd(STARTED),
        entry("[2026-03-04 10:00:00 TP5] Init torch distributed begin.", pid=9),
        entry(ARGS),
    ]
    lines += [entry(ILLEGAL, pid=9), systemd(DIED[0])]
    assert classify_journal(lines, alive=False).rank == 5


def test_line_numbers_in_a_busy_journal(tmp_path: Path) -> None:
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


@given(st.text())
def test_clean_text_has_no_control_characters(value: str) -> None:
    cleaned = clean(value).replace("\n", "")
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in cleaned)


FORMS = {
    "short": "Mar 04 10:00:00 gpu-1 python3[4711]: {}",
    "short-full": "Wed 2026-03-04 10:00:00 UTC gpu-1 python3[4711]: {}",
    "short-unix": "1772618400.000000 gpu-1 python3[4711]: {}",
    "short-monotonic": "[  912.400000] gpu-1 python3[4711]: {}",
    "cat": "{}",
    "container": "2026-03-04T10:00:00.000000Z {}",
}


@pytest.mark.parametrize("form", FORMS)
def test_other_forms_of_text(form: str) -> None:
    def lines(*messages: str) -> list[str]:
        own = FORMS[form].replace("python3[4711]", "systemd[1]")
        return [
            own.format(message[9:]) if message.startswith("systemd: ") else FORMS[form].format(message)
            for message in messages
        ]

    first = lines(f"systemd: {STARTED}", ARGS, CRASH, "RuntimeError: CUDA error: misaligned address")
    ended = lines(*(f"systemd: {message}" for message in DIED))
    second = lines(f"systemd: {STARTED}", ARGS, *LOADED, *SERVING, CRASH, ILLEGAL)
    verdict = classify_journal([*first, *ended, *second, *ended], alive=None)
    place = (verdict.class_, verdict.phase, verdict.secondary, verdict.first_error_line_no)
    assert place == ("illegal_address", "serving", (), 15)
    usage = lines(f"systemd: {STARTED}", "launch_server.py: error: unrecognized arguments: --topk")
    assert classify_journal([*usage, *ended], alive=None).class_ == "bad_args"
    unknown = classify_journal([*lines(f"systemd: {STARTED}", ARGS), *ended], alive=None)
    assert (unknown.class_, unknown.first_error) == ("unknown", DIED[0])
