"""The rules by which one class of several in a log is the first cause."""

from __future__ import annotations

from pathlib import Path

import pytest
from logs import (
    ARGS,
    CAPTURE,
    CRASH,
    DIED,
    LOADED,
    SERVING,
    SIGQUIT,
    STARTED,
    decode,
    entry,
    kernel,
    systemd,
    text,
)
from treeline.signatures import LogVerdict, classify_journal, classify_text

ILLEGAL = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB."
REMOTE = (
    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely."
)
WATCHDOG = "[2026-03-04 10:00:06 TP0] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)"
XID = "kernel: NVRM: Xid (PCI:0000:9b:00): {number}, pid={pid}, name={name}, what happened"


def served(*messages: str) -> LogVerdict:
    """Classify a life that served, went on with `messages` and died."""
    begin = (f"systemd: {STARTED}", ARGS, *LOADED, CAPTURE, *SERVING, decode(4.5))
    end = tuple(f"systemd: {line}" for line in DIED)
    return classify_journal(text(*begin, *messages, *end), alive=False)


def test_the_earliest_specific_error_wins_over_earlier_noise() -> None:
    verdict = served(SIGQUIT, REMOTE, WATCHDOG, CRASH, OOM, CRASH, ILLEGAL)
    assert verdict.class_ == "torch_oom"
    assert set(verdict.secondary) == {"sigquit", "nccl_remote", "sglang_watchdog", "illegal_address"}
    assert (verdict.phase, verdict.confidence) == ("serving", "high")


@pytest.mark.parametrize(
    ("number", "class_"),
    [
        (79, "xid_bus"),
        (48, "xid_memory"),
        (94, "xid_memory"),
        (74, "xid_link"),
        (149, "xid_link"),
        (119, "xid_gsp"),
    ],
)
def test_a_node_fault_wins_though_it_is_journalled_last(number: int, class_: str) -> None:
    verdict = served(CRASH, ILLEGAL, XID.format(number=number, pid="'<unknown>'", name="<unknown>"))
    assert (verdict.class_, verdict.kind) == (class_, "node")
    assert "illegal_address" in verdict.secondary


def test_a_kernel_xid_beats_a_cuda_message_and_154_loses_to_any_other() -> None:
    ecc = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
    recovery = XID.format(number=154, pid="'<unknown>'", name="<unknown>")
    assert served(CRASH, ecc, recovery).class_ == "xid_recovery"
    both = served(recovery, XID.format(number=48, pid=4711, name="python3"), CRASH, ecc)
    assert both.class_ == "xid_memory"
    assert set(both.secondary) == {"xid_recovery", "ecc"}
    assert served(CRASH, ecc).class_ == "ecc"


def test_an_xid_of_another_program_and_process_is_no_evidence() -> None:
    verdict = served(XID.format(number=79, pid=99, name="Xorg"), CRASH, ILLEGAL)
    assert (verdict.class_, verdict.secondary) == ("illegal_address", ())


def test_an_application_xid_is_never_the_cause() -> None:
    verdict = served(XID.format(number=31, pid=4711, name="python3"), CRASH, ILLEGAL)
    assert (verdict.class_, verdict.secondary) == ("illegal_address", ("xid_app",))


def test_a_host_oom_wins_and_names_the_rank() -> None:
    killed = "kernel: Out of memory: Killed process 4711 (python3) total-vm:1kB"
    verdict = served(killed, CRASH, ILLEGAL)
    assert (verdict.class_, verdict.kind, verdict.rank) == ("host_oom", "transient", 0)
    other = served("kernel: Out of memory: Killed process 99 (mysqld) total-vm:1kB", CRASH, ILLEGAL)
    assert other.class_ == "illegal_address"


@pytest.mark.parametrize(
    ("line", "class_"), [(WATCHDOG, "sglang_watchdog"), (REMOTE, "nccl_remote")], ids=["watchdog", "remote"]
)
def test_a_consequence_is_the_cause_only_where_nothing_is_better(line: str, class_: str) -> None:
    alone = served(line, SIGQUIT)
    assert (alone.class_, alone.kind, alone.confidence) == (class_, "transient", "low")
    unknown = served(line, CRASH, "KeyError: 'layer.27'", SIGQUIT)
    assert (unknown.class_, unknown.first_error) == ("unknown", "KeyError: 'layer.27'")
    assert class_ in unknown.secondary


def test_a_wrapper_is_the_cause_only_where_its_inner_error_has_no_class() -> None:
    wrapper = "Exception: Capture cuda graph failed: {}"
    hint = "1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)"
    begin = (f"systemd: {STARTED}", ARGS, *LOADED, CAPTURE, CRASH)
    end = tuple(f"systemd: {line}" for line in DIED)
    inner = classify_journal(
        text(*begin, wrapper.format("CUDA error: misaligned address"), hint, *end), alive=False
    )
    assert (inner.class_, inner.phase, inner.secondary) == (
        "misaligned",
        "graph_capture",
        ("graph_capture_failed",),
    )
    bare = classify_journal(text(*begin, "TypeError: x", wrapper.format("x"), hint, *end), alive=False)
    assert (bare.class_, bare.phase) == ("graph_capture_failed", "graph_capture")


def test_advice_arguments_and_requests_are_never_evidence() -> None:
    verdict = served(
        "Receive: obj=GenerateReqInput(text='CUDA error: an illegal memory access was encountered')",
        '[2026-03-04 10:01:00] INFO: 1.2.3.4:1 - "GET /CUDA%20out%20of%20memory HTTP/1.1" 404 Not Found',
        "If exit code is -9 (SIGKILL), a common cause is the OS OOM killer. Run `dmesg -T | grep -i oom`.",
        "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
    )
    assert (verdict.class_, verdict.secondary) == ("unknown", ())


def test_a_death_without_a_class_keeps_the_last_words() -> None:
    verdict = served("BrokenPipeError: [Errno 32] Broken pipe", CRASH, "KeyError: 'x'", "EOFError")
    assert (verdict.class_, verdict.kind, verdict.first_error) == ("unknown", "none", "KeyError: 'x'")
    assert (
        served("Fatal Python error: Segmentation fault").first_error
        == "Fatal Python error: Segmentation fault"
    )
    killed = served()
    assert killed.first_error is not None
    assert "status=9/KILL" in killed.first_error


def test_only_the_last_life_counts_in_text() -> None:
    first = text(f"systemd: {STARTED}", ARGS, CRASH, OOM, *(f"systemd: {line}" for line in DIED))
    second = text(f"systemd: {STARTED}", ARGS, *LOADED, *SERVING, decode(4.5), decode(4.4), second=60)
    verdict = classify_journal([*first, *second], alive=True)
    assert (verdict.class_, verdict.phase, verdict.secondary) == ("ok", "serving", ())
    assert verdict.lines == len(second)


def test_only_the_last_life_counts_in_json() -> None:
    first = [systemd(STARTED), entry(ARGS), entry(CRASH), entry(OOM), systemd(DIED[0])]
    later = {"invocation": "b" * 32}
    second = [systemd(STARTED, at=9, **later), entry(ARGS, at=9, **later), entry(CRASH, at=9, **later)]
    second += [entry(ILLEGAL, at=9, **later), systemd(DIED[0], at=9, **later)]
    late = kernel("NVRM: Xid (PCI:0000:9b:00): 79, pid=1, GPU has fallen off the bus.", at=5)
    verdict = classify_journal([*first, *second, late], alive=False)
    assert (verdict.class_, verdict.secondary) == ("illegal_address", ())
    assert classify_journal([*first, systemd("x: Scheduled restart job")], alive=False).class_ == "torch_oom"


def test_an_alive_service_is_judged_by_what_kills_it() -> None:
    begin = (f"systemd: {STARTED}", ARGS, *LOADED, *SERVING, decode(4.5))
    warned = classify_journal(
        text(*begin, "[2026-03-04 10:01:00 TP0] caught: CUDA out of memory, retrying"), alive=True
    )
    assert (warned.class_, warned.secondary) == ("ok", ("torch_oom",))
    went_on = [*begin, "[2026-03-04 10:01:00 TP0] caught: CUDA out of memory", decode(4.4), decode(4.5)]
    assert classify_journal(text(*went_on), alive=True).secondary == ()
    zombie = classify_journal(text(*begin, CRASH, OOM), alive=True)
    assert zombie.class_ == "torch_oom"
    faulty = classify_journal(text(*begin, XID.format(number=48, pid=4711, name="python3")), alive=True)
    assert (faulty.class_, faulty.kind) == ("xid_memory", "node")


NO_LOGS = [b"", b"hi\n", b"# Title\n\nSome text.\n", b"\x1f\x8bno gzip", b"\xff\x00\x07" * 99]


@pytest.mark.parametrize("content", NO_LOGS, ids=["empty", "word", "text", "gzip", "bytes"])
def test_what_is_no_log_at_all_is_unknown(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    verdict = classify_journal(tmp_path / "file", alive=None)
    assert (verdict.class_, verdict.confidence, verdict.phase) == ("unknown", "low", None)


def test_a_bare_text_that_shows_an_engine_is_judged() -> None:
    verdict = classify_journal([*LOADED, *SERVING, decode(4.5)], alive=None)
    assert (verdict.class_, verdict.phase) == ("ok", "serving")
    assert classify_journal([OOM], alive=None).class_ == "torch_oom"


def test_an_ordered_stop_is_no_failure() -> None:
    stop = (
        "systemd: Stopping sglang-ddtree-trial.service - SGLang trial...",
        "[2026-03-04 10:02:00] SIGTERM received. signum=None frame=None. Draining requests...",
        "ProcessLookupError: [Errno 3] No such process",
        "RuntimeError: CUDA error: driver shutting down: CUDA out of memory",
        "systemd: sglang-ddtree-trial.service: Deactivated successfully.",
    )
    verdict = classify_journal(
        text(f"systemd: {STARTED}", ARGS, *LOADED, *SERVING, decode(4.5), *stop), alive=False
    )
    assert (verdict.class_, verdict.phase, verdict.secondary) == ("ok", "shutdown", ())


@pytest.mark.parametrize(
    ("lens", "class_"),
    [
        ([1.0] * 9, "silent_corruption"),
        ([1.0] * 2, "ok"),
        ([1.0, 4.5, 4.4, 4.5], "ok"),
        ([4.5, 4.4, 1.02, 1.0, 1.0], "silent_corruption"),
        ([4.5, 1.0, 1.0, 1.0, 3.9], "ok"),
    ],
    ids=["floor throughout", "too little", "one early", "collapsed", "recovered"],
)
def test_acceptance_at_the_floor(lens: list[float], class_: str) -> None:
    begin = (f"systemd: {STARTED}", ARGS, *LOADED, *SERVING)
    verdict = classify_journal(text(*begin, *map(decode, lens)), alive=True)
    assert (verdict.class_, verdict.phase) == (class_, "serving")
    assert list(verdict.accept_lens) == lens


def test_speculation_silently_off() -> None:
    begin = (f"systemd: {STARTED}", *LOADED, *SERVING, decode(None), decode(None), decode(None))
    assert classify_journal(text(ARGS, *begin[1:]), alive=True).class_ == "spec_disabled"
    plain = ARGS.replace("'DDTREE'", "None")
    assert classify_journal(text(plain, *begin[1:]), alive=True).class_ == "ok"


def test_a_separate_kernel_log_is_placed_by_time() -> None:
    unit = [systemd(STARTED, at=10), entry(ARGS, at=11), *(entry(line, at=12) for line in LOADED)]
    unit += [entry(line, at=20) for line in SERVING]
    unit += [entry(CRASH, at=40), entry(ILLEGAL, at=40), systemd(DIED[0], at=41)]
    fault = "NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
    verdict = classify_journal(unit, alive=False, kernel=[kernel(fault, at=13)])
    assert (verdict.class_, verdict.phase, verdict.first_error_line_no) == ("xid_bus", "kv_pool", None)
    assert classify_journal(unit, alive=False, kernel=[kernel(fault, at=2)]).class_ == "illegal_address"


def test_bare_text_has_a_phase_only_where_the_class_has_one() -> None:
    argparse = classify_text("launch_server.py: error: unrecognized arguments: --speculative-ddtree-topk 4")
    assert (argparse.class_, argparse.phase) == ("bad_args", "args")
    assert classify_text(ILLEGAL).phase is None
    nothing = classify_text("all is well")
    assert (nothing.class_, nothing.first_error) == ("unknown", None)
