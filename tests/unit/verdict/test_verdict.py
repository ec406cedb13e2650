"""From step results and log to status, class, phase, step and effect: every row of the design's tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from treeline.gates import evaluate
from treeline.keys import RestartKey
from treeline.steps import Steps
from treeline.verdict import TrialFacts, Verdict, decide

TRIAL = "s-0001"
KEY = RestartKey(budget=16, topk=8, maxreq=64, block_size=8, graphs=True)
BEGIN = {"previous_invocation_id": "old"}
RESTART = {"status": {}, "state": "started", "failed": False, "failed_when_result": False}
READY = {
    "outcome": "ready",
    "invocation_id": "new",
    "mismatches": [],
    "proof": {"trial_id_in_env": TRIAL},
}
EVIDENCE = {"alive": True, "end": {"invocation_id": "new"}, "preempted_by": None, "stopped_by_others": False}
UNREACHABLE = {"unreachable": True, "msg": "no route to host"}


@dataclass
class Log:
    class_: str = "ok"
    kind: str = "none"
    phase: str | None = "serving"
    first_error: str | None = None
    rank: int | None = None
    captured_bs: int | None = None
    captured_width: int | None = None
    secondary: tuple[str, ...] = ()
    advice: str = ""
    accept_lens: tuple[float, ...] = ()


CRASH = Log(
    "illegal_address",
    "config",
    "graph_capture",
    "CUDA error: an illegal memory access was encountered",
    rank=2,
    captured_bs=32,
    secondary=("sigquit",),
    advice="Try graphs=off.",
)


def load(**changes: Any) -> dict[str, Any]:
    marks = changes.pop("marks", "++++++++")
    point = {
        "concurrency": 1,
        "requests": 8,
        "failed": 0,
        "completion_tokens": 2000,
        "verify_calls": 500,
        "garble": {"flagged": 0, "of": 8},
        "prefix_cache_share": 0.0,
    } | changes.pop("point", {})
    answers = [
        {"id": f"c{n}", "phase": phase, "ok": mark == "+"}
        for phase in ("single", "busiest")
        for n, mark in enumerate(marks)
    ]
    return {"outcome": "done", "canaries": answers, "points": [point]} | changes


def verdict(log: Log | None = None, **changes: Any) -> Verdict:
    raw = {"begin": BEGIN, "restart": RESTART, "ready": READY, "load": load(), "evidence": EVIDENCE} | changes
    steps = Steps.of(raw)
    log = log or Log()
    gates = evaluate(steps, log, trial_id=TRIAL, points_asked=1)
    return decide(TrialFacts(KEY, 17, steps, log, gates))


def died(**changes: Any) -> dict[str, Any]:
    outcome = {
        "outcome": "died",
        "failed": True,
        "msg": "it died",
        "invocation_id": "new",
        "result": "exit-code",
    }
    return {"ready": outcome | changes, "load": {}, "evidence": EVIDENCE | {"alive": False}}


def test_a_good_trial() -> None:
    got = verdict()
    assert (got.status, got.class_, got.phase, got.step, got.effect) == ("ok", "ok", "serving", None, "good")
    assert (got.first_error, got.advice, got.rows) == (None, None, 64 * 17)


def test_a_crash_carries_what_the_log_says() -> None:
    got = verdict(CRASH, **died())
    assert (got.status, got.class_, got.phase, got.step) == (
        "crash",
        "illegal_address",
        "graph_capture",
        "ready",
    )
    assert (got.kind, got.effect, got.rank, got.captured_bs, got.rows) == ("config", "bad", 2, 32, 32 * 17)
    assert (got.first_error, got.advice, got.secondary) == (CRASH.first_error, CRASH.advice, ("sigquit",))


@pytest.mark.parametrize(
    ("class_", "kind", "status", "effect"),
    [
        ("illegal_address", "config", "crash", "bad"),
        ("unknown", "none", "crash", "repeat"),
        ("nccl_remote", "transient", "crash", "repeat_transient"),
        ("model_missing", "setup", "crash", "setup"),
        ("xid_bus", "node", "void", "node"),
        ("bad_args", "config", "rejected", "dialect"),
        ("config_rejected", "config", "rejected", "bad"),
        ("ok", "none", "crash", "repeat"),
    ],
)
def test_the_class_decides_what_a_death_means(class_: str, kind: str, status: str, effect: str) -> None:
    got = verdict(Log(class_, kind, "weights", "the line"), **died())
    assert (got.status, got.effect) == (status, effect)
    assert got.class_ == ("unknown" if class_ == "ok" else class_)
    assert got.kind == kind


def test_a_death_without_a_log_is_unknown_and_keeps_the_message_and_the_phase_reached() -> None:
    raw = {"begin": BEGIN, "restart": RESTART, **died(phases={"args": 1.0, "weights": 2.0})}
    got = decide(TrialFacts(KEY, 17, Steps.of(raw), None, ()))
    assert (got.status, got.class_, got.kind, got.effect) == ("crash", "unknown", "none", "repeat")
    assert (got.first_error, got.phase) == ("it died", "weights")


def test_a_cause_without_a_class_keeps_its_line_rank_and_batch() -> None:
    log = Log("unknown", "none", "graph_capture", "KeyError: 'input_scale'", rank=3, captured_bs=16)
    got = verdict(log, **died())
    assert (got.class_, got.first_error, got.rank) == ("unknown", "KeyError: 'input_scale'", 3)
    assert (got.captured_bs, got.rows) == (16, 16 * 17)


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("begin", "preflight"),
        ("restart", "restart"),
        ("ready", "ready"),
        ("load", "load"),
        ("evidence", "evidence"),
    ],
)
def test_an_unreachable_host_makes_a_trial_void(name: str, step: str) -> None:
    got = verdict(CRASH if name == "evidence" else None, **{name: UNREACHABLE})
    assert (got.status, got.step, got.class_, got.effect, got.kind) == ("void", step, None, "void", "none")
    assert "no route to host" in (got.first_error or "")


def test_a_trial_that_did_not_begin_or_was_not_rendered_is_void() -> None:
    got = verdict(begin={"failed": True, "msg": "the lease expired"})
    assert (got.status, got.step, got.first_error) == ("void", "preflight", "the lease expired")
    got = decide(TrialFacts(KEY, 17, Steps.of({}), None, ()))
    assert (got.status, got.step) == ("void", "preflight")
    got = verdict(configure={"failed": True, "msg": "undefined variable"}, restart={}, ready={}, load={})
    assert (got.status, got.step, got.first_error) == ("void", "configure", "undefined variable")


@pytest.mark.parametrize("invocation", ["old", "", None])
def test_nothing_started_is_void(invocation: str | None) -> None:
    failed = {
        "failed": False,
        "failed_when_result": False,
        "msg": "Unable to restart service: dependency failed",
    }
    # The found unit still runs then: it did not preempt anything.
    evidence = EVIDENCE | {
        "alive": False,
        "end": {"invocation_id": invocation},
        "preempted_by": "sglang-ddtree.service",
    }
    got = verdict(CRASH, restart=failed, ready={}, load={}, evidence=evidence)
    assert (got.status, got.step, got.class_, got.effect) == ("void", "restart", None, "void")
    assert got.first_error == "Unable to restart service: dependency failed"
    nothing = {"outcome": "nothing_started", "failed": True, "msg": "its InvocationID is unchanged"}
    got = verdict(ready=nothing, load={}, evidence=evidence)
    assert (got.status, got.step, got.first_error) == ("void", "restart", "its InvocationID is unchanged")


def test_a_restart_that_was_not_carried_out_is_void() -> None:
    got = verdict(restart={}, ready={}, load={})
    assert (got.status, got.step) == ("void", "restart")


@pytest.mark.parametrize(
    ("class_", "kind", "status", "effect"),
    [("unknown", "none", "crash", "repeat"), ("bad_args", "config", "rejected", "dialect")],
)
def test_a_start_that_failed_with_a_new_life_is_a_crash(
    class_: str, kind: str, status: str, effect: str
) -> None:
    failed = {"failed_when_result": False, "failed": False, "msg": "Unable to start service"}
    evidence = EVIDENCE | {"alive": False}
    got = verdict(Log(class_, kind, "args"), restart=failed, ready={}, load={}, evidence=evidence)
    assert (got.status, got.step, got.phase, got.class_, got.effect) == (
        status,
        "restart",
        "args",
        class_,
        effect,
    )


def test_a_timeout_has_no_class_but_says_what_the_log_knows() -> None:
    log = Log("sglang_watchdog", "transient", "weights", "Watchdog timeout")
    got = verdict(log, ready={"outcome": "timeout", "failed": True, "msg": "not ready within 30 s"}, load={})
    assert (got.status, got.class_, got.step, got.phase, got.effect) == (
        "timeout",
        None,
        "ready",
        "weights",
        "repeat",
    )
    assert got.first_error == "not ready within 30 s"
    assert got.secondary == ("sglang_watchdog",)
    assert "ready_timeout" in (got.advice or "")
    got = verdict(load={"outcome": "timeout", "msg": "the load did not end"})
    assert (got.status, got.step) == ("timeout", "load")
    assert "ready_timeout" not in (got.advice or "")
    assert "treeline_load_bound_s" in (got.advice or "")


def test_a_life_that_systemd_ended_for_its_length_is_a_timeout() -> None:
    assert verdict(**died(result="timeout")).status == "timeout"
    evidence = EVIDENCE | {"alive": False, "end": {"ours": True, "invocation_id": "new", "result": "timeout"}}
    assert verdict(load=load(outcome="died"), evidence=evidence).status == "timeout"


def test_a_mismatch_is_no_class_and_names_the_difference() -> None:
    mismatches = [{"name": "speculative_ddtree_budget", "expected": 16, "served": 8}]
    got = verdict(ready=READY | {"outcome": "mismatch", "failed": True, "mismatches": mismatches}, load={})
    assert (got.status, got.class_, got.step, got.effect) == ("mismatch", None, "prove", "dialect")
    assert got.first_error == "speculative_ddtree_budget: asked for 16, served 8"


@pytest.mark.parametrize(
    "changes",
    [
        {"load": load(outcome="preempted", msg="sglang-ddtree.service became active")},
        {"load": load(outcome="lease_lost", msg="the lease expired")},
        {"evidence": EVIDENCE | {"alive": False, "preempted_by": "sglang-ddtree.service"}},
        {"evidence": EVIDENCE | {"alive": False, "stopped_by_others": True}},
        died() | {"evidence": EVIDENCE | {"alive": False, "preempted_by": "sglang-ddtree.service"}},
        {"ready": {"outcome": "lease_lost", "msg": "the lease expired"}, "load": {}},
        {"evidence": EVIDENCE | {"lease_lost": True}},
    ],
)
def test_preempted_trials_are_void_whatever_the_log_says(changes: dict[str, Any]) -> None:
    got = verdict(CRASH, **changes)
    assert (got.status, got.class_, got.effect) == ("void", None, "void")
    assert got.first_error
    assert "illegal" not in got.first_error


def test_a_clean_exit_before_our_stop_is_a_crash() -> None:
    got = verdict(Log("ok", phase="shutdown"), **died(exec_main_status=0, result="success"))
    assert (got.status, got.class_, got.effect) == ("crash", "unknown", "repeat")
    evidence = EVIDENCE | {"alive": False}
    got = verdict(Log("ok", phase="shutdown"), evidence=evidence)
    assert (got.status, got.step) == ("crash", "evidence")


def test_a_death_under_load_is_a_crash_and_among_canaries_too() -> None:
    serving = Log("illegal_address", "config", "serving", "the line", rank=0)
    evidence = EVIDENCE | {"alive": False}
    got = verdict(serving, load=load(outcome="died", msg="it died"), evidence=evidence)
    assert (got.status, got.step, got.phase, got.effect) == ("crash", "load", "serving", "bad")
    got = verdict(serving, load=load(outcome="died", points=[]), evidence=evidence)
    assert (got.status, got.step) == ("crash", "canary")


def test_a_module_that_failed_by_itself_says_nothing_about_the_engine() -> None:
    broken = {"failed": True, "msg": "MODULE FAILURE"}
    got = verdict(ready=broken, load={})
    assert (got.status, got.step, got.first_error) == ("void", "ready", "MODULE FAILURE")
    got = verdict(load=broken)
    assert (got.status, got.step) == ("void", "load")
    got = verdict(CRASH, load=broken, evidence=EVIDENCE | {"alive": False})
    assert (got.status, got.step) == ("crash", "load")


COLLAPSED = {"completion_tokens": 500, "verify_calls": 500}


@pytest.mark.parametrize(
    ("raw", "log_class", "status", "class_", "step", "effect"),
    [
        (load(marks="+++-----"), "ok", "garbled", "silent_corruption", "canary", "bad"),
        (
            load(marks="+++-----", point=COLLAPSED),
            "silent_corruption",
            "garbled",
            "silent_corruption",
            "canary",
            "bad",
        ),
        (
            load(point={"garble": {"flagged": 8, "of": 8}}),
            "ok",
            "garbled",
            "silent_corruption",
            "gates",
            "bad",
        ),
        (load(point=COLLAPSED), "ok", "accept_collapse", "silent_corruption", "gates", "bad"),
        (load(point={"verify_calls": 0}), "ok", "fallback", "spec_disabled", "gates", "bad"),
        (
            load(point={"verify_calls": 0, "failed": 1}),
            "spec_disabled",
            "fallback",
            "spec_disabled",
            "gates",
            "bad",
        ),
        (load(point={"failed": 1}), "ok", "measurement_invalid", None, "gates", "back"),
        (load(point={"prefix_cache_share": 0.5}), "ok", "measurement_invalid", None, "gates", "back"),
        (
            load(engine={"simulated": True, "overrun_share": 0.5}),
            "ok",
            "measurement_invalid",
            None,
            "gates",
            "back",
        ),
        (load(points=[]), "ok", "measurement_invalid", None, "gates", "back"),
    ],
)
def test_gates_by_precedence(
    raw: dict[str, Any], log_class: str, status: str, class_: str | None, step: str, effect: str
) -> None:
    got = verdict(Log(log_class, "config" if log_class != "ok" else "none"), load=raw)
    assert (got.status, got.class_, got.step, got.effect) == (status, class_, step, effect)
    assert got.phase == "serving"
    assert (got.first_error or "").startswith("gate ")
    assert got.advice


def test_right_answers_with_collapsed_acceptance_and_the_reverse_are_told_apart() -> None:
    assert verdict(load=load(point=COLLAPSED)).status == "accept_collapse"
    assert verdict(load=load(marks="--------")).status == "garbled"


def test_a_node_failure_voids_a_trial_that_went_well_and_keeps_its_class() -> None:
    log = Log("xid_memory", "node", "serving", "NVRM: Xid 94")
    got = verdict(log)
    assert (got.status, got.class_, got.effect, got.first_error) == (
        "void",
        "xid_memory",
        "node",
        "NVRM: Xid 94",
    )


def test_first_errors_are_cleaned_of_terminal_codes() -> None:
    got = verdict(Log("illegal_address", "config", "serving", "\x1b[31mbad\x1b[0m\x07"), **died())
    assert got.first_error == "bad"


def gpu_side(**gpu: object) -> dict[str, object]:
    counters = {"ecc.errors.uncorrected.volatile.total": 0, "state": "ok"}
    return {"at": 1.0, "gpus": [{"index": 0, "uuid": "GPU-1", **counters, **gpu}], "holders": []}


def test_memory_errors_that_grew_are_the_nodes_fault() -> None:
    looks = {"before": gpu_side(), "after": gpu_side(**{"ecc.errors.uncorrected.volatile.total": 2})}
    found = verdict(evidence=EVIDENCE | {"gpu": looks})
    assert (found.status, found.effect, found.kind) == ("void", "node", "node")
    assert "2 more uncorrected memory errors" in (found.first_error or "")


def test_a_stranger_on_the_gpus_voids_the_trial_and_not_the_host() -> None:
    stranger = {
        "pid": 7,
        "command": "train.py",
        "unit": "other.service",
        "memory_mib": 100,
        "place": "foreign",
    }
    after = {**gpu_side(), "holders": [stranger]}
    found = verdict(evidence=EVIDENCE | {"gpu": {"before": gpu_side(), "after": after}})
    assert (found.status, found.effect) == ("void", "void")
    assert "pid 7 (train.py) of other.service" in (found.first_error or "")
