"""Closed and open loops: when requests are sent, from when their latency counts, and that none is lost."""

from __future__ import annotations

import asyncio
import random
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from misbehaving_peer import STEPS, Peer
from treeline_target import load_engine, load_loops, load_run, load_spec, load_summary
from treeline_target.load_client import Client
from treeline_target.load_loops import Run, Work
from treeline_target.load_records import Record
from treeline_target.load_spec import ClientKey, Limits
from treeline_target.load_stream import Exchange, RequestError

MakeSpec = Callable[..., load_spec.Spec]
BAD_MODES = [
    *("ok", "ok", "stall", "half_chunk", "early_end", "reset", "reset_at_once", "hang_up", "error_frame"),
    *("aborted", "not_json", "garbage_midway", "empty", "busy", "unavailable", "nonsense", "silence"),
]


def carry_out(spec: load_spec.Spec, key: ClientKey, requests: int = 8) -> dict[str, Any]:
    """One run of the loop that the spec asks for, and its measurement."""

    async def one() -> dict[str, Any]:
        async with Client(spec.base_url, spec.limits, api=spec.api, stream=spec.stream) as client:
            work, run = Work.of(client, spec), Run(key, "point")
            loop = load_loops.closed_loop if spec.rate is None else load_loops.open_loop
            await loop(work, run, requests, spec.max_tokens)
            return load_summary.summary(run, load_engine.facts({}), spec)

    return asyncio.run(one())


def test_constant_arrivals_are_even_and_random_ones_keep_the_rate(make_spec: MakeSpec) -> None:
    assert load_loops.arrivals(make_spec(rate=4.0, arrival="constant"), "p", 4) == [0.0, 0.25, 0.5, 0.75]
    spec = make_spec(rate=50.0)
    times = load_loops.arrivals(spec, "p", 4000)
    gaps = [later - earlier for earlier, later in zip(times, times[1:])]  # noqa: B905, RUF007
    assert times[0] == 0.0
    assert statistics.fmean(gaps) == pytest.approx(0.02, rel=0.06)
    # Of exponential gaps the standard deviation is the mean.
    assert statistics.stdev(gaps) == pytest.approx(0.02, rel=0.1)
    assert load_loops.arrivals(spec, "p", 4000) == times
    assert load_loops.arrivals(spec, "q", 4000) != times


def test_an_open_loop_counts_latency_from_when_a_request_was_due(peer: Peer, make_spec: MakeSpec) -> None:
    # One place and 0.2 s a request, but one is due every 0.05 s: the last of eight waits more than a second.
    peer.step_s = 0.2 / STEPS
    limits = Limits(1, 5, 10, 30)
    due = carry_out(make_spec(rate=20.0, arrival="constant", limits=limits), ClientKey(1))
    closed = carry_out(make_spec(limits=limits), ClientKey(1))
    assert (due["loop"], due["rate"], closed["loop"], closed["rate"]) == ("open", 20.0, "closed", None)
    assert due["e2e_p99_ms"] > 1000 > 3 * closed["e2e_p50_ms"]
    assert due["ttft_p99_ms"] > 900
    assert due["late_p99_ms"] > 900 > 100 > closed["late_p99_ms"]
    assert due["window"]["rule"] == "first to last due time"
    assert (due["requests"], due["ok"]) == (8, 8)


def test_an_open_loop_sends_when_due_whatever_the_answers_do(peer: Peer, make_spec: MakeSpec) -> None:
    peer.modes = ["silence"]
    began = time.monotonic()
    point = carry_out(make_spec(rate=40.0, arrival="constant", limits=Limits(1, 1, 1, 30)), ClientKey(64), 20)
    assert time.monotonic() - began < 3.5
    assert point["errors"] == {"timeout_request": 20}
    assert point["late_p99_ms"] < 300
    assert peer.peak >= 15


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rate", [None, 200.0])
def test_every_request_that_was_sent_ends_in_one_way(
    peer: Peer, make_spec: MakeSpec, seed: int, rate: float | None
) -> None:
    chance = random.Random(seed)
    peer.modes = [chance.choice(BAD_MODES) for _ in range(60)]
    spec = make_spec(rate=rate, limits=Limits(0.5, 0.3, 0.6, 20))
    point = carry_out(spec, ClientKey(8), 40)
    assert point["requests"] == point["ok"] + point["failed"] == 40
    assert sum(point["errors"].values()) == point["failed"] > 0
    assert point["cancelled"] == 0


@pytest.mark.parametrize("rate", [None, 100.0])
def test_a_load_that_is_cut_short_counts_what_was_in_flight(
    peer: Peer, make_spec: MakeSpec, rate: float | None
) -> None:
    peer.modes = ["ok"] * 10 + ["stall"]
    limits = Limits(5, 60, 60, 60)
    stop: list[str] = []
    threading.Timer(1.2, lambda: stop.append("enough")).start()
    life = load_run.Life(lease_lost=lambda: stop[0] if stop else None)
    spec = make_spec(rate=rate, client_keys=[ClientKey(6)], requests_per_key=40, limits=limits)
    result = load_run.run(spec, life)
    (point,) = result["points"]
    assert result["outcome"] == "lease_lost"
    assert point["requests"] == point["ok"] + point["failed"] + point["cancelled"]
    assert point["cancelled"] == 6
    assert not point["complete"]


def test_a_dying_server_loses_no_request(peer: Peer, make_spec: MakeSpec) -> None:
    peer.step_s = 0.05
    threading.Timer(0.5, peer.die).start()
    spec = make_spec(client_keys=[ClientKey(6)], requests_per_key=30, limits=Limits(1, 2, 4, 30))
    (point,) = load_run.run(spec, load_run.Life())["points"]
    assert point["requests"] == point["ok"] + point["failed"] == 30
    assert set(point["errors"]) <= {"connect", "reset", "truncated"}


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0, 10), st.floats(0.01, 5), st.sampled_from(["ok", "failed", "open"])),
        max_size=30,
    )
)
def test_the_counts_add_up_for_any_mixture(requests: list[tuple[float, float, str]]) -> None:
    run = Run(ClientKey(4), "point", started=0.0, ended=20.0)
    for sent, took, how in requests:
        exchange = Exchange(sent=sent)
        if how == "ok":
            exchange.tick(sent + took / 2, 5)
            exchange.tokens = 5
        if how == "failed":
            exchange.error = RequestError("reset", "gone")
        if how != "open":
            exchange.ended = sent + took
        run.begin(Record("point", run.key, 0, sent, exchange))
    counts = load_summary.counts(run.records)
    assert counts["requests"] == counts["ok"] + counts["failed"] + counts["cancelled"] == len(requests)
    assert counts["ok"] == sum(how == "ok" for _, _, how in requests)
    assert counts["cancelled"] == sum(how == "open" for _, _, how in requests)


def test_the_concurrency_that_was_there_is_that_of_the_sums(peer: Peer, make_spec: MakeSpec) -> None:
    peer.step_s = 0.05
    point = carry_out(make_spec(), ClientKey(4), 16)
    assert point["effective_concurrency"] == pytest.approx(4, rel=0.15)
    assert peer.peak == 4


def test_texts_of_a_large_run_are_judged_and_forgotten_on_the_way(
    peer: Peer, make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_loops, "_TEXT_KEPT", 3 * len(peer.text))

    async def one() -> Run:
        spec = make_spec()
        async with Client(spec.base_url, spec.limits) as client:
            run = Run(ClientKey(2), "point")
            await load_loops.closed_loop(Work.of(client, spec), run, 12, 12)
            return run

    run = asyncio.run(one())
    assert sum(len(record.exchange.text) for record in run.records) <= 3 * len(peer.text)
    assert sum(record.characters for record in run.records) >= 9 * len(peer.text)
