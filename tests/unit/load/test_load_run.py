"""A whole load: its order, its figures, and each way in which it may end."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from misbehaving_peer import STEPS, Peer
from treeline.gates import evaluate
from treeline.steps import Steps
from treeline_target import clock, load_run, load_spec, unitwatch
from treeline_target.load_spec import ClientKey, Limits

MakeSpec = Callable[..., load_spec.Spec]
OURS = "a" * 32
CANARIES = load_spec.parse_canaries(
    [
        {"id": "capital", "prompt": "capital?", "expect": "Paris"},
        {"id": "sum", "prompt": "sum?", "expect": r"\b42\b"},
        {"id": "null", "prompt": "thoughts?", "expect": "x"},
    ]
)


def state(active: str, invocation: str = OURS, ended: float | None = None) -> unitwatch.UnitState:
    properties = {
        "ActiveState": active,
        "InvocationID": invocation,
        "Result": "signal",
        "ExecMainStatus": "9",
    }
    if ended is not None:
        properties["InactiveEnterTimestampMonotonic"] = str(int(ended * 1e6))
    return unitwatch.parse_state(properties)


class Unit:
    """What systemd would say about the unit under load."""

    def __init__(self) -> None:
        self.now = state("active")

    def die(self) -> None:
        self.now = state("failed", ended=clock.monotonic())

    def life(self, **more: Any) -> load_run.Life:
        return load_run.Life("trial.service", OURS, look=lambda _: self.now, **more)


def lines(result: dict[str, Any]) -> list[dict[str, Any]]:
    with gzip.open(result["requests_file"], "rt", encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def alone(point: dict[str, Any]) -> dict[str, int]:
    """How the outputs of a point were judged one by one."""
    return {name: point["garble"][name] for name in ("flagged", "of", "not_available")}


def test_a_load_measures_every_key_busiest_first(peer: Peer, make_spec: MakeSpec) -> None:
    peer.answers = {
        "capital?": "It is Paris.",
        "sum?": "41",
        "thoughts?": {"content": None, "reasoning_content": "hm"},
    }
    peer.metrics = lambda: f"sglang:num_running_reqs {float(peer.flying)}\n"
    peer.step_s = 0.1
    result = load_run.run(make_spec(canaries=CANARIES), Unit().life())
    assert result["outcome"] == "done"
    busy, single = result["points"]
    assert (busy["concurrency"], single["concurrency"]) == (4, 1)
    assert (busy["requests"], busy["failed"], busy["complete"], busy["cancelled"]) == (8, 0, True, 0)
    assert (busy["completion_tokens"], busy["verify_calls"], busy["correct_drafts"]) == (
        8 * 12,
        8 * STEPS,
        8 * 8,
    )
    assert busy["al"] == 3.0
    assert busy["prefix_cache_share"] == pytest.approx(0.01)
    assert busy["window"]["peak"] == 4
    assert 0 < busy["output_tok_s"] <= 12 * 4 / (STEPS * 0.1)
    assert busy["output_tok_s"] > single["output_tok_s"] > 0
    assert busy["ttft_p50_ms"] >= 100
    assert busy["e2e_p50_ms"] >= 400
    # 12 tokens come in steps of three: nine of them after the first chunk.
    assert busy["tpot_p50_ms"] == pytest.approx((busy["e2e_p50_ms"] - busy["ttft_p50_ms"]) / 11, rel=0.2)
    assert 1 <= busy["server_peak_running"] <= 4
    assert alone(busy) == {"flagged": 0, "of": 8, "not_available": 0}
    assert busy["garble"]["pool"]["outputs"] == 8
    assert (busy["engine"], busy["simulated"], busy["overrun_share"]) == ("sglang", False, None)
    assert result["engine"] == {"name": "sglang", "simulated": False, "overrun_share": None}
    assert result["not_measured"] == []
    assert peer.peak == 4
    assert len(set(peer.prompts)) == len(peer.prompts)


def test_canaries_are_asked_alone_and_under_the_busiest_load(peer: Peer, make_spec: MakeSpec) -> None:
    peer.answers = {
        "capital?": "It is Paris.",
        "sum?": "41",
        "thoughts?": {"content": None, "reasoning_content": "hm"},
    }
    result = load_run.run(make_spec(canaries=CANARIES, client_keys=[ClientKey(6)]), Unit().life())
    answers = {(one["phase"], one["id"]): one for one in result["canaries"]}
    assert set(answers) == {(phase, one.id) for phase in ("single", "busiest") for one in CANARIES}
    for phase in ("single", "busiest"):
        assert answers[phase, "capital"]["ok"]
        assert answers[phase, "capital"]["got"] == "It is Paris."
        assert (answers[phase, "sum"]["ok"], answers[phase, "sum"]["expect"]) == (False, r"\b42\b")
        null = answers[phase, "null"]
        assert (null["ok"], null["got"], null["reasoning"], null["finish"]) == (False, None, "hm", "stop")
        assert null["error"] == "the answer has no content"
    assert all(one["under_load"] for one in result["canaries"] if one["phase"] == "busiest")
    asked = [line for line in lines(result) if line["phase"] == "canary_load"]
    assert len(asked) >= 3
    assert all(chat["temperature"] == 0 and chat["model"] == "small" for chat in peer.chats)
    # A thinking model would spend the few tokens of a canary on its thought.
    asked_not_to_think = {"thinking": False, "enable_thinking": False}
    assert all(chat["chat_template_kwargs"] == asked_not_to_think for chat in peer.chats)
    # The load around the canaries is no measurement.
    assert result["points"][0]["requests"] == 12
    assert peer.peak == 6


def test_a_canary_that_gets_an_error_says_so(peer: Peer, make_spec: MakeSpec) -> None:
    peer.answers = {"capital?": 500}
    result = load_run.run(make_spec(canaries=CANARIES[:1], client_keys=[ClientKey(1)]), Unit().life())
    assert [(one["ok"], one["got"]) for one in result["canaries"]] == [(False, None)] * 2
    assert "500" in result["canaries"][0]["error"]


def test_records_hold_every_request_and_no_text(peer: Peer, make_spec: MakeSpec) -> None:
    stale = Path(make_spec().out_dir) / "requests.ndjson.gz"
    stale.parent.mkdir(parents=True)
    stale.write_bytes(b"of an earlier load")
    result = load_run.run(make_spec(canaries=CANARIES[:1]), Unit().life())
    found = lines(result)
    assert result["requests"] == len(found)
    counts = {phase: sum(one["phase"] == phase for one in found) for phase in ("warmup", "point")}
    assert counts == {"warmup": 4, "point": 16}
    whole = json.dumps(found)
    assert "jumps over" not in whole
    assert "def function_" not in whole
    measured = [one for one in found if one["phase"] == "point"]
    assert all(
        one["intended"] <= one["sent"] < one["first"] < one["last"] <= one["ended"] for one in measured
    )
    assert {(one["tokens"], one["verify_calls"], one["garble"], one["error"]) for one in measured} == {
        (12, 4, "clean", None)
    }
    assert all(len(one["text_sha256"]) == 64 for one in measured)
    assert not Path(result["requests_file"]).stat().st_mode & 0o077


def test_failed_requests_are_counted_and_do_not_end_the_load(peer: Peer, make_spec: MakeSpec) -> None:
    # Four warm up; of the eight measured ones three fail, each in its own way.
    peer.modes = ["ok"] * 4 + ["error_frame", "half_chunk", "unavailable", "ok"]
    point = load_run.run(make_spec(client_keys=[ClientKey(4)]), Unit().life())["points"][0]
    assert (point["requests"], point["failed"], point["complete"]) == (8, 3, True)
    assert point["errors"] == {"error_in_stream": 1, "truncated": 1, "http_status": 1}
    assert point["first_error"]
    assert point["al"] == 3.0
    assert point["completion_tokens"] == 5 * 12


def test_one_client_goes_on_after_each_kind_of_silence(peer: Peer, make_spec: MakeSpec) -> None:
    # One warms up; then the same client meets a stall, silence, and a stall again.
    peer.modes = ["ok", "stall", "silence", "stall", "ok"]
    point = load_run.run(make_spec(client_keys=[ClientKey(1)], requests_per_key=5), Unit().life())["points"][
        0
    ]
    assert point["errors"] == {"timeout_chunk": 2, "timeout_request": 1}
    assert (point["requests"], point["failed"], point["complete"], point["cancelled"]) == (5, 3, True, 0)


def test_garbled_outputs_are_flagged_and_shown_in_short(peer: Peer, make_spec: MakeSpec) -> None:
    peer.text = "\ufffd" * 400
    result = load_run.run(make_spec(), Unit().life())
    assert alone(result["points"][0]) == {"flagged": 8, "of": 8, "not_available": 0}
    assert len(result["garbled_samples"]) == 3
    assert all(len(one["text"]) == 200 and one["reasons"] for one in result["garbled_samples"])


def test_an_engine_that_counts_tokens_and_gives_no_text_is_caught(peer: Peer, make_spec: MakeSpec) -> None:
    peer.text = ""
    peer.answers = {asked: {"content": None} for asked in ("capital?", "sum?", "thoughts?")}
    result = load_run.run(make_spec(canaries=CANARIES), Unit().life())
    busy = result["points"][0]
    assert (busy["ok"], busy["completion_tokens"]) == (8, 8 * 12)
    assert (busy["garble"]["pool"]["verdict"], busy["garble"]["pool"]["outputs"]) == ("flagged", 8)
    assert busy["garble"]["pool"]["reasons"] == ["length"]
    # SGLang says null where there is no text: no thought was cut short, the answer is a wrong one.
    assert {(one["ok"], one["got"], one["error"]) for one in result["canaries"]} == {(False, "", None)}
    steps = Steps.of({"load": result})
    verdicts = {gate.name: gate.verdict for gate in evaluate(steps, None, trial_id="t", points_asked=2)}
    garbled = ("canaries_single", "canaries_busiest", "garbled_pool")
    assert {name: verdicts[name] for name in garbled} == dict.fromkeys(garbled, "failed")


def test_an_engine_without_speculation_has_no_acceptance_length(peer: Peer, make_spec: MakeSpec) -> None:
    peer.modes = ["no_speculation"]
    point = load_run.run(make_spec(), Unit().life())["points"][0]
    assert (point["al"], point["verify_calls"], point["failed"]) == (None, None, 0)


def test_the_death_of_the_unit_ends_the_load_within_two_seconds(peer: Peer, make_spec: MakeSpec) -> None:
    peer.modes = ["ok"] * 12 + ["stall"]
    unit = Unit()
    slow = Limits(connect_s=5, chunk_s=60, request_s=60, total_s=60)
    threading.Timer(1.0, unit.die).start()
    result = load_run.run(make_spec(limits=slow), unit.life())
    assert result["outcome"] == "died"
    assert "trial.service died while the load ran" in result["msg"]
    assert "status 9" in result["msg"] or "signal" in result["msg"]
    assert 0 <= result["returned_at_monotonic"] - result["died_at_monotonic"] <= 2
    busy, single = result["points"]
    assert (busy["complete"], busy["requests"], single["complete"], single["cancelled"]) == (
        True,
        8,
        False,
        1,
    )
    assert [one["error"] for one in lines(result) if one["error"]] == ["cancelled"]


def test_an_engine_that_cuts_its_connections_before_it_is_seen_dead_has_died(
    peer: Peer, make_spec: MakeSpec
) -> None:
    unit = Unit()

    def die() -> None:
        peer.die()
        time.sleep(2)
        unit.die()

    peer.step_s = 0.05
    threading.Timer(0.1, die).start()
    result = load_run.run(make_spec(requests_per_key=4, client_keys=[ClientKey(4)]), unit.life())
    assert result["outcome"] == "died"
    assert result["points"][0]["failed"] > 0


def test_a_life_that_systemd_forgot_or_replaced_is_over(peer: Peer, make_spec: MakeSpec) -> None:
    for now in (state("inactive", invocation=""), state("active", invocation="b" * 32)):
        unit = Unit()
        unit.now = now
        result = load_run.run(make_spec(), unit.life())
        assert result["outcome"] == "died"


def test_a_found_unit_that_came_back_is_a_preemption(
    peer: Peer, make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unitwatch, "read_state", lambda unit, _=0: state("activating", invocation="c" * 32))
    unit = Unit()
    unit.die()
    result = load_run.run(make_spec(), unit.life(found_units=["found.service"]))
    assert result["outcome"] == "preempted"
    assert "found.service became active" in result["msg"]


def test_the_total_bound_ends_any_load(peer: Peer, make_spec: MakeSpec) -> None:
    peer.modes = ["silence"]
    began = time.monotonic()
    result = load_run.run(make_spec(limits=Limits(5, 60, 60, 1.0)), Unit().life())
    assert result["outcome"] == "timeout"
    assert time.monotonic() - began < 6
    assert result["points"] == []
    assert [one["concurrency"] for one in result["not_measured"]] == [4, 1]
    assert result["warmup"] == {"requests": 4, "failed": 4}


def test_a_lost_lease_ends_the_load(peer: Peer, make_spec: MakeSpec) -> None:
    result = load_run.run(make_spec(), Unit().life(lease_lost=lambda: "the lease expired"))
    assert (result["outcome"], result["msg"]) == ("lease_lost", "the lease expired")


def test_a_dead_service_without_a_unit_ends_by_itself(peer: Peer, make_spec: MakeSpec) -> None:
    peer.die()
    result = load_run.run(make_spec(requests_per_key=4), load_run.Life())
    assert result["outcome"] == "done"
    assert result["points"][0]["errors"] == {"connect": 4}
    assert result["points"][0]["output_tok_s"] is None


def test_records_that_cannot_be_written_are_an_error(peer: Peer, make_spec: MakeSpec) -> None:
    blocked = Path(make_spec().out_dir)
    blocked.write_text("a file where the folder should be")
    with pytest.raises(OSError, match="exists"):
        load_run.run(make_spec(), Unit().life())
