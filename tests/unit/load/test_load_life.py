"""What a load does beyond single points: repeats, soak, progress, flushes, and engines that make no token."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from misbehaving_peer import Peer
from treeline_target import clock, load_points, load_run, load_spec, unitwatch
from treeline_target.load_spec import ClientKey, Limits, Repeats, Slo

MakeSpec = Callable[..., load_spec.Spec]


def unit_that_dies_after(seconds: float) -> load_run.Life:
    born = clock.monotonic()

    def look(unit: str) -> unitwatch.UnitState:
        dead = clock.monotonic() - born > seconds
        properties = {
            "ActiveState": "failed" if dead else "active",
            "InvocationID": "a" * 32,
            "Result": "signal",
        }
        if dead:
            properties["InactiveEnterTimestampMonotonic"] = str(int((born + seconds) * 1e6))
        return unitwatch.parse_state(properties)

    return load_run.Life("trial.service", "a" * 32, look=look)


def test_an_engine_that_makes_no_token_ends_the_load_and_says_so(peer: Peer, make_spec: MakeSpec) -> None:
    peer.modes = ["silence"]
    limits = Limits(1, 60, 60, 60, no_token_s=1.0)
    began = time.monotonic()
    result = load_run.run(make_spec(limits=limits), load_run.Life())
    assert time.monotonic() - began < 4
    assert (result["outcome"], result["reason"], result["phase"]) == ("timeout", "no_tokens", "warmup")
    assert "took 4 requests and made no token for 1 s" in result["msg"]
    assert result["points"] == []


def test_an_engine_that_stops_making_tokens_ends_the_load_too(peer: Peer, make_spec: MakeSpec) -> None:
    peer.modes = ["ok"] * 6 + ["stall"]
    limits = Limits(1, 60, 60, 60, no_token_s=1.0)
    result = load_run.run(make_spec(limits=limits), load_run.Life())
    (point,) = result["points"]
    assert (result["reason"], result["phase"], point["complete"]) == ("no_tokens", "point", False)
    assert point["requests"] == point["ok"] + point["failed"] + point["cancelled"]
    assert point["cancelled"] == 4


def test_an_engine_that_hangs_on_the_outputs_to_compare_ends_the_load_too(
    peer: Peer, make_spec: MakeSpec
) -> None:
    peer.modes = ["ok"] * 9 + ["silence"]
    canaries = load_spec.parse_canaries([{"id": "c", "prompt": "capital?", "expect": "know"}])
    spec = make_spec(
        client_keys=[ClientKey(1)],
        canaries=canaries,
        samples="tokens",
        limits=Limits(1, 60, 60, 60, no_token_s=1.0),
    )
    began = time.monotonic()
    result = load_run.run(spec, load_run.Life())
    assert time.monotonic() - began < 5
    assert (result["outcome"], result["reason"], result["phase"]) == ("timeout", "no_tokens", "canary_load")
    assert (result["points"][0]["complete"], len(result["canaries"]), result["samples"]) == (True, 2, [])
    assert peer.flying == 1


def test_slow_engines_that_do_make_tokens_are_waited_for(peer: Peer, make_spec: MakeSpec) -> None:
    peer.step_s = 0.3
    spec = make_spec(
        client_keys=[ClientKey(1)], requests_per_key=1, limits=Limits(1, 5, 20, 60, no_token_s=0.8)
    )
    assert load_run.run(spec, load_run.Life())["outcome"] == "done"


def test_keys_are_repeated_in_turns_and_never_with_the_same_prompts(peer: Peer, make_spec: MakeSpec) -> None:
    result = load_run.run(make_spec(repeats=Repeats(3, 3)), load_run.Life())
    order = [(point["concurrency"], point["repeat"]) for point in result["points"]]
    assert order == [(4, 1), (1, 1), (1, 2), (4, 2), (4, 3), (1, 3)]
    hashes = [point["prompts_sha256"] for point in result["points"]]
    assert len(set(hashes)) == 6
    assert len(set(peer.prompts)) == len(peer.prompts)
    assert [(one["concurrency"], one["repeats"], one["converged"]) for one in result["convergence"]] == [
        (4, 3, None),
        (1, 3, None),
    ]
    again = load_run.run(make_spec(), load_run.Life())
    assert [point["prompts_sha256"] for point in again["points"]] == hashes[:2]


def test_repeats_end_where_the_throughput_is_known_and_at_the_cap_at_last() -> None:
    keys = [ClientKey(8), ClientKey(1)]

    def points(*speeds: float) -> list[dict[str, Any]]:
        common = {"context": None, "complete": True, "failed": 0}
        steady = [{"concurrency": 8, "output_tok_s": 100.0 + at / 10, **common} for at in range(len(speeds))]
        return steady + [{"concurrency": 1, "output_tok_s": speed, **common} for speed in speeds]

    repeats = Repeats(2, 4, 0.01)
    wild = points(10.0, 20.0, 15.0, 30.0)
    assert load_points.round_of(1, keys, repeats, []) == keys
    assert load_points.round_of(2, keys, repeats, points(10.0)) == keys[::-1]
    assert load_points.round_of(3, keys, repeats, points(10.0, 20.0)) == [ClientKey(1)]
    assert load_points.round_of(5, keys, repeats, wild) == []
    assert load_points.round_of(3, keys, Repeats(1, 3), wild) == keys
    known = load_points.convergence(ClientKey(8), wild, 0.01)
    unknown = load_points.convergence(ClientKey(1), wild, 0.01)
    assert (known.converged, unknown.converged, unknown.repeats) == (True, False, 4)
    # A point that lost requests says nothing about the speed of the others.
    wild[0]["failed"] = 1
    assert load_points.convergence(ClientKey(8), wild, 0.01).repeats == 3


def test_a_soak_keeps_the_busiest_load_up(
    peer: Peer, make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treeline_target.load_soak.BIN_S", 0.5)
    monkeypatch.setattr("treeline_target.load_soak.BATCH", 4)
    result = load_run.run(make_spec(soak_s=2.6), load_run.Life())
    soak = result["soak"]
    assert (result["outcome"], soak["concurrency"], soak["complete"]) == ("done", 4, True)
    assert 2.6 <= soak["duration_s"] < 4
    assert soak["requests"] == soak["ok"] > 50
    assert (soak["failed"], soak["cancelled"], soak["al"]) == (0, 0, 3.0)
    assert len(soak["tok_s_course"]) == 5
    assert sum(soak["tok_s_course"]) * 0.5 <= soak["completion_tokens"]
    assert soak["decline"] is not None
    assert soak["garble"]["of"] == soak["ok"]
    assert result["requests"] == 4 + 8 + 8 + soak["requests"]
    assert len(result["points"]) == 2


def test_a_death_in_the_soak_is_told_with_what_went_before(peer: Peer, make_spec: MakeSpec) -> None:
    life = unit_that_dies_after(2.5)
    result = load_run.run(make_spec(soak_s=30, client_keys=[ClientKey(4)]), life)
    soak = result["soak"]
    assert (result["outcome"], result["phase"]) == ("died", "soak")
    assert "s of soak: trial.service died" in result["msg"]
    assert 0 <= result["returned_at_monotonic"] - result["died_at_monotonic"] <= 2
    assert soak["requests"] == soak["ok"] + soak["failed"] + soak["cancelled"]
    assert not soak["complete"]
    assert (result["points"][0]["complete"], result["points"][0]["ok"]) == (True, 8)


def test_progress_is_told_at_most_once_a_second(peer: Peer, make_spec: MakeSpec) -> None:
    peer.step_s = 0.1
    told: list[dict[str, Any]] = []
    times: list[float] = []

    def listen(progress: dict[str, Any]) -> None:
        told.append(progress)
        times.append(time.monotonic())

    spec = make_spec(client_keys=[ClientKey(2)], requests_per_key=12)
    load_run.run(spec, load_run.Life(), listen)
    within = [one for one in told if one["phase"] == "point"]
    assert within
    assert (within[-1]["point"], within[-1]["of"], within[-1]["points_of"]) == ("c2", 12, 1)
    assert any(0 < one["done"] < 12 for one in within)
    assert any(one["eta_s"] for one in within)
    assert any(one["tok_s"] for one in within)
    # The last word comes when it is due, whatever was said before.
    assert all(later - earlier > 0.9 for earlier, later in zip(times[:-1], times[1:-1]))  # noqa: B905, RUF007
    assert told[-1]["phase"] == "done"


def test_progress_stands_in_a_file_for_others_to_read(peer: Peer, make_spec: MakeSpec) -> None:
    spec = make_spec()
    file = Path(spec.out_dir) / "progress.json"
    peer.step_s = 0.1
    seen: list[dict[str, Any]] = []
    over = threading.Event()

    def read() -> None:
        while not over.wait(0.05):
            if file.exists():
                seen.append(json.loads(file.read_text()))

    reader = threading.Thread(target=read)
    reader.start()
    load_run.run(spec, load_run.Life())
    over.set()
    reader.join()
    assert {"point"} <= {one["phase"] for one in seen}
    last = json.loads(file.read_text())
    assert (last["phase"], last["points_done"], last["points_of"]) == ("done", 2, 2)
    assert [path.name for path in file.parent.iterdir() if path.name.startswith(".")] == []


def test_the_prefix_cache_is_emptied_before_each_point_where_that_is_offered(
    peer: Peer, make_spec: MakeSpec
) -> None:
    assert load_run.run(make_spec(), load_run.Life())["points"][0]["cache_flushed"] is None
    peer.flush_status = 200
    result = load_run.run(make_spec(), load_run.Life())
    assert [point["cache_flushed"] for point in result["points"]] == [True, True]
    assert peer.flushes == 2
    assert load_run.run(make_spec(flush=False), load_run.Life())["points"][0]["cache_flushed"] is None
    peer.flush_status = 400
    assert load_run.run(make_spec(), load_run.Life())["points"][0]["cache_flushed"] is False


def test_goodput_is_the_share_within_the_objective(peer: Peer, make_spec: MakeSpec) -> None:
    peer.step_s = 0.05
    peer.modes = ["ok"] * 6 + ["error_frame", "ok"]
    slo = Slo(ttft_ms=1000, tpot_ms=1000)
    (good,) = load_run.run(make_spec(client_keys=[ClientKey(2)], slo=slo), load_run.Life())["points"]
    assert (good["goodput"]["good"], good["goodput"]["of"], good["goodput"]["share"]) == (7, 8, 7 / 8)
    assert good["goodput"]["tok_s"] == pytest.approx(7 * 12 / good["duration_s"], rel=1e-3)
    late = make_spec(client_keys=[ClientKey(2)], slo=Slo(ttft_ms=10))
    assert load_run.run(late, load_run.Life())["points"][0]["goodput"]["good"] == 0


def test_a_context_is_asked_for_in_tokens_as_this_engine_counts_them(peer: Peer, make_spec: MakeSpec) -> None:
    # The peer counts 100 tokens in each prompt of the warm-up, whose length is then taken for 100 tokens.
    spec = make_spec(client_keys=[ClientKey(2, 50)], requests_per_key=4)
    load_run.run(spec, load_run.Life())
    warm, measured = peer.prompts[:2], peer.prompts[2:]
    assert {len(prompt) for prompt in warm} == {200}
    assert {len(prompt) for prompt in measured} == {100}


def test_what_cannot_be_loaded_is_refused_before_the_first_request(peer: Peer, make_spec: MakeSpec) -> None:
    with pytest.raises(ValueError, match="arrival: 'rarely' is not allowed; poisson and constant are"):
        load_run.run(make_spec(arrival="rarely"), load_run.Life())
    with pytest.raises(ValueError, match="rate: -1 is not a number from"):
        load_run.run(make_spec(rate=-1), load_run.Life())
    with pytest.raises(ValueError, match="max_repeats: 2 is not a whole number from 3"):
        load_run.run(make_spec(repeats=Repeats(3, 2)), load_run.Life())
    assert peer.prompts == []
