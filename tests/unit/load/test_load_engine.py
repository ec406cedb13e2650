"""What engines say about themselves, and what they leave out."""

from __future__ import annotations

import asyncio

from misbehaving_peer import Peer
from treeline_target import load_engine
from treeline_target.load_client import Client
from treeline_target.load_spec import Limits


def state(simulated_s: float, overrun_s: float) -> dict[str, object]:
    timing = {"steps": 10, "simulated_s": simulated_s, "compute_s": 0.1, "overrun_s": overrun_s}
    return {"engine": "reference", "simulated_timing": True, "internal_states": [{"simulated": timing}]}


def test_a_real_engine_is_sglang_and_not_simulated() -> None:
    facts = load_engine.facts(
        {"model_path": "/models/kimi", "internal_states": [{"avg_spec_accept_length": 2.9}]}
    )
    assert (facts.name, facts.simulated, facts.model) == ("sglang", False, "/models/kimi")
    assert load_engine.overrun_share(facts, facts) is None


def test_the_overrun_is_that_of_the_point_alone() -> None:
    before, after = load_engine.facts(state(10.0, 4.0)), load_engine.facts(state(30.0, 5.0))
    assert (after.name, after.simulated) == ("reference", True)
    assert load_engine.overrun_share(before, after) == 0.05
    assert load_engine.overrun_share(after, after) is None


def test_empty_states_of_other_ranks_do_not_hide_the_one_that_speaks() -> None:
    info = state(2.0, 1.0)
    info["internal_states"] = [None, {}, {"simulated": None}, info["internal_states"][0]]  # type: ignore[index]
    assert load_engine.facts(info).simulated_s == 2.0


def test_running_requests_are_added_up_over_ranks() -> None:
    page = (
        "# HELP sglang:num_running_reqs The number\n"
        "# TYPE sglang:num_running_reqs gauge\n"
        'sglang:num_running_reqs{dp_rank="0",model_name="m"} 7.0\n'
        'sglang:num_running_reqs{dp_rank="1",model_name="m"} 8\n'
        'sglang:num_running_reqs_grammar{dp_rank="1"} 100\n'
    )
    assert load_engine.running_requests(page) == 15
    assert load_engine.running_requests("sglang:num_queue_reqs 3.0\n") is None


def test_the_peak_is_the_highest_of_the_polls(peer: Peer) -> None:
    values = iter([2, 9, 4])
    peer.metrics = lambda: f"sglang:num_running_reqs {next(values, 0)}.0\n"

    async def watch() -> int | None:
        async with Client(peer.address, Limits()) as client, load_engine.PeakWatch(client) as seen:
            while seen.peak != 9:
                await asyncio.sleep(0.05)
            await asyncio.sleep(load_engine.POLL_S + 0.2)
            return seen.peak

    assert asyncio.run(asyncio.wait_for(watch(), 20)) == 9


def test_an_engine_without_metrics_has_no_peak(peer: Peer) -> None:
    async def watch() -> int | None:
        async with Client(peer.address, Limits()) as client, load_engine.PeakWatch(client) as seen:
            await asyncio.sleep(0.2)
            return seen.peak

    assert asyncio.run(watch()) is None
