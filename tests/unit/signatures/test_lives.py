"""Which lines belong to the last service life, when those of other units stand between."""

from __future__ import annotations

import json

import pytest
from logs import ARGS, CRASH, DIED, LOADED, SERVING, STARTED, decode, entry, systemd, text
from treeline.signatures import classify_journal

ILLEGAL = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB."
LIFE = (f"systemd: {STARTED}", ARGS, *LOADED, *SERVING, decode(4.5))
DEATH = tuple(f"systemd: {message}" for message in DIED)
OTHER = "b" * 32


@pytest.mark.parametrize(
    "foreign",
    [
        "Started Session 12 of User root.",
        "Started logrotate.service - Rotate log files.",
        "Starting apt-daily.timer",
    ],
)
def test_the_start_of_another_unit_begins_nothing(foreign: str) -> None:
    verdict = classify_journal(text(*LIFE, f"systemd: {foreign}", CRASH, ILLEGAL, *DEATH), alive=None)
    assert (verdict.class_, verdict.phase, verdict.lines) == ("illegal_address", "serving", 13)
    after = classify_journal(text(*LIFE, CRASH, ILLEGAL, *DEATH, f"systemd: {foreign}"), alive=None)
    assert (after.class_, after.phase, after.accept_lens) == ("illegal_address", "serving", (4.5,))


def test_what_another_unit_says_after_the_end_is_no_last_word() -> None:
    foreign = ("systemd: Started logrotate.service - Rotate log files.", "ERROR: no such log")
    verdict = classify_journal(text(*LIFE, *DEATH, *foreign), alive=None)
    assert (verdict.class_, verdict.first_error) == ("unknown", DIED[0])
    assert verdict.lines == len(LIFE) + len(DEATH)


def test_a_line_of_another_unit_after_the_end_begins_nothing_in_json() -> None:
    ours = {"_SYSTEMD_UNIT": "sglang.service"}
    lines = [systemd(STARTED, at=1), *(entry(line, at=2, **ours) for line in (*LIFE[1:], CRASH, ILLEGAL))]
    lines += [systemd(message, at=3) for message in DIED]
    whole = len(lines)
    theirs = {"invocation": OTHER, "_SYSTEMD_UNIT": "ssh.service", "SYSLOG_IDENTIFIER": "sshd"}
    lines += [entry("Accepted publickey for root from 10.0.0.9", at=4, **theirs)]
    verdict = classify_journal(lines, alive=None)
    assert (verdict.class_, verdict.phase, verdict.accept_lens) == ("illegal_address", "serving", (4.5,))
    assert verdict.lines == whole


def test_a_life_that_ends_without_a_word_is_the_last_one_all_the_same() -> None:
    verdict = classify_journal(text(*LIFE, CRASH, OOM, *DEATH, f"systemd: {STARTED}", *DEATH), alive=None)
    assert (verdict.class_, verdict.secondary) == ("unknown", ())


def test_the_death_of_another_unit_is_not_ours() -> None:
    lines = text(*LIFE, "systemd: backup.service: Failed with result 'exit-code'.", decode(4.4))
    assert classify_journal(lines, alive=None).class_ == "ok"
    stopped = text(*LIFE, "systemd: Stopping backup.service - Backup...", CRASH, ILLEGAL, *DEATH)
    assert classify_journal(stopped, alive=None).class_ == "illegal_address"


def test_another_unit_that_starts_after_the_end_is_another_life() -> None:
    found = "Started sglang.service - the one before."
    lines = text(*LIFE, CRASH, OOM, *DEATH, f"systemd: {found}", ARGS, *LOADED, CRASH, ILLEGAL, *DEATH)
    assert classify_journal(lines, alive=None).class_ == "illegal_address"


def test_starting_and_started_are_one_life() -> None:
    announced = f"systemd: {STARTED.replace('Started', 'Starting')[:-1]}..."
    lines = [
        *LIFE,
        CRASH,
        OOM,
        *DEATH,
        announced,
        ARGS,
        *LOADED,
        CRASH,
        ILLEGAL,
        f"systemd: {STARTED}",
        *DEATH,
    ]
    verdict = classify_journal(text(*lines), alive=None)
    assert (verdict.class_, verdict.secondary) == ("illegal_address", ())


def test_lines_of_another_unit_in_json() -> None:
    theirs = {"invocation": OTHER, "_SYSTEMD_UNIT": "other.service"}
    ours = {"_SYSTEMD_UNIT": "sglang.service"}
    lines = [systemd(STARTED, at=1), *(entry(line, at=2, **ours) for line in LIFE[1:])]
    lines += [entry(OOM, at=3, **theirs), entry(CRASH, at=4, **ours), entry(ILLEGAL, at=4, **ours)]
    lines += [systemd(DIED[0], at=5)]
    verdict = classify_journal(lines, alive=None, explain=True)
    assert (verdict.class_, verdict.secondary) == ("illegal_address", ())
    (foreign,) = [remark for remark in verdict.remarks if remark.class_ == "torch_oom"]
    assert foreign.why == "the line belongs to another service life"


def test_a_late_line_of_the_life_before_changes_nothing() -> None:
    second = {"invocation": OTHER}
    lines = [systemd(STARTED), entry(ARGS), entry(CRASH), systemd(STARTED, at=5, **second)]
    lines += [entry(ARGS, at=5, **second), entry(decode(4.5), at=6, **second), entry(OOM, at=7)]
    assert classify_journal(lines, alive=None).class_ == "ok"


@pytest.mark.parametrize(("at", "class_"), [(1, "ok"), (3, "xid_bus"), (6, "xid_bus")])
def test_the_kernels_lines_of_a_trial_count_from_before_its_process(at: int, class_: str) -> None:
    life = [systemd(STARTED, at=5), entry(ARGS, at=5), entry(decode(4.5), at=6)]
    begun = int(json.loads(entry("", at=2))["__REALTIME_TIMESTAMP"])
    xid = json.loads(entry("NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.", at=at))
    kernel = [json.dumps({**xid, "_TRANSPORT": "kernel", "SYSLOG_IDENTIFIER": "kernel"})]
    assert classify_journal(life, alive=True, kernel=kernel, kernel_since=begun).class_ == class_
    assert classify_journal(life, alive=True, kernel=kernel).class_ == ("ok" if at < 5 else "xid_bus")


def test_last_words_without_a_life_belong_to_their_unit() -> None:
    """journald found the writer gone and knows only the unit."""
    alone = json.loads(entry(ILLEGAL, at=3))
    del alone["_SYSTEMD_INVOCATION_ID"]
    ours = {**alone, "_SYSTEMD_UNIT": "sglang.service"}
    theirs = {**alone, "_SYSTEMD_UNIT": "session-4.scope"}
    for line, class_ in ((ours, "illegal_address"), (theirs, "unknown")):
        lines = [entry(ARGS, _SYSTEMD_UNIT="sglang.service"), json.dumps(line), systemd(DIED[0], at=4)]
        assert classify_journal(lines, alive=False).class_ == class_


def test_what_was_left_out_is_explained() -> None:
    access = '[2026-03-04 10:01:00] INFO: 1.2.3.4:1 - "GET /CUDA%20out%20of%20memory HTTP/1.1" 404 Not Found'
    quoted = "Receive: obj=GenerateReqInput(text='CUDA error: misaligned address')"
    xid = "kernel: NVRM: Xid (PCI:0000:9b:00): 79, pid=99, name=Xorg, GPU has fallen off the bus."
    sigquit = (
        "[2026-03-04 10:00:07] SIGQUIT received. signum=None, frame=None. It usually means one child failed."
    )
    before = text(*LIFE, CRASH, OOM, *DEATH)
    lines = before + text(*LIFE, access, quoted, xid, CRASH, ILLEGAL, sigquit, *DEATH, second=60)
    verdict = classify_journal(lines, alive=None, explain=True)
    assert verdict.class_ == "illegal_address"
    why = {remark.class_: remark for remark in verdict.remarks}
    assert why["illegal_address"].taken
    assert [remark.class_ for remark in verdict.remarks if remark.taken] == ["illegal_address"]
    assert why["misaligned"].why == "a line with 'Receive: obj=' is never evidence"
    assert "process 99 (Xorg)" in why["xid_bus"].why
    assert "tier consequence" in why["sigquit"].why
    assert why["torch_oom"].why == "the line belongs to an earlier service life"
    assert why["torch_oom"].line_no == len(before) - 2
    assert classify_journal(lines, alive=None).remarks == ()
