"""Whatever a peer does to a request becomes a record of it, in bounded time."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Any

import pytest
from misbehaving_peer import STEPS, TOKENS_PER_STEP, Peer
from treeline_target.load_client import Client
from treeline_target.load_spec import Limits
from treeline_target.load_stream import Exchange

LIMITS = Limits(connect_s=1, chunk_s=0.3, request_s=1.2, total_s=10)


def generate(
    address: str,
    limits: Limits = LIMITS,
    api_key: str | None = None,
    incremental: bool = False,
    **how: Any,
) -> Exchange:
    async def one() -> Exchange:
        async with Client(address, limits, api_key, **how) as client:
            client.incremental = incremental
            client.is_sglang = True
            exchange = Exchange()
            await client.generate(exchange, "a prompt", 12)
            return exchange

    return asyncio.run(one())


def test_a_good_answer_is_read_exactly(peer: Peer) -> None:
    got = generate(peer.address)
    assert got.error is None
    assert (got.tokens, got.verify_calls, got.correct_drafts) == (12, 4, 8)
    assert (got.prompt_tokens, got.cached_tokens, got.finish, got.chunks) == (100, 1, "length", STEPS)
    assert got.text == peer.text
    assert [tokens for _, tokens in got.ticks] == [TOKENS_PER_STEP * step for step in range(1, STEPS + 1)]
    assert got.sent < (got.first or 0) < (got.last or 0) <= (got.ended or 0)


@pytest.mark.parametrize(
    ("mode", "kind", "tokens"),
    [
        ("silence", "timeout_request", None),
        ("stall", "timeout_chunk", 6),
        ("trickle", "timeout_request", None),
        ("half_chunk", "truncated", 6),
        ("early_end", "truncated", 6),
        ("reset", "reset", 6),
        ("reset_at_once", "reset", None),
        ("hang_up", "reset", None),
        ("error_frame", "error_in_stream", 3),
        ("aborted", "aborted", 3),
        ("not_json", "bad_json", None),
        ("empty", "no_tokens", None),
        ("busy", "http_status", None),
        ("unavailable", "http_status", None),
        ("nonsense", "protocol", None),
        ("garbage_midway", "bad_json", 6),
        ("flood", "oversized", None),
    ],
)
def test_what_goes_wrong_is_named_and_bounded(peer: Peer, mode: str, kind: str, tokens: int | None) -> None:
    peer.modes = [mode]
    began = time.monotonic()
    got = generate(peer.address)
    assert got.error is not None
    # Some versions of aiohttp do not tell a reset inside an answer from its early end.
    kinds = ("reset", "truncated") if mode == "reset" else (kind,)
    assert got.error.kind in kinds, got.error
    assert got.tokens == tokens
    assert got.error.message
    assert got.ended is not None
    assert time.monotonic() - began < LIMITS.request_s + 1


def test_an_error_inside_a_good_status_keeps_its_message_and_code(peer: Peer) -> None:
    peer.modes = ["error_frame"]
    error = generate(peer.address).error
    assert error is not None
    assert (error.message, error.status) == ("the batch is broken", 500)


@pytest.mark.parametrize(("mode", "status"), [("busy", 429), ("unavailable", 503)])
def test_a_refusal_keeps_its_status(peer: Peer, mode: str, status: int) -> None:
    peer.modes = [mode]
    error = generate(peer.address).error
    assert error is not None
    assert error.status == status


def test_nobody_listening_is_a_record(peer: Peer) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        got = generate(f"http://127.0.0.1:{free.getsockname()[1]}")
    assert got.error is not None
    assert got.error.kind == "connect"


def test_a_full_backlog_is_a_bounded_connect(peer: Peer) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(deaf.getsockname())
        got = generate(f"http://127.0.0.1:{deaf.getsockname()[1]}", Limits(0.3, 0.3, 2, 5))
        for filler in fillers:
            filler.close()
    assert got.error is not None
    assert got.error.kind in ("timeout_connect", "timeout_request")


@pytest.mark.parametrize("mode", ["without_done", "odd_pieces", "counts_late", "quotes_the_word_error"])
def test_unusual_but_whole_answers_are_no_errors(peer: Peer, mode: str) -> None:
    peer.modes = [mode]
    got = generate(peer.address)
    assert got.error is None, got.error
    assert got.tokens == 12
    assert got.text == peer.text
    assert got.first is not None


def test_incremental_streams_are_put_together(peer: Peer) -> None:
    peer.modes = ["incremental"]
    assert generate(peer.address, incremental=True).text == "part 1. part 2. part 3. part 4. "


def test_an_engine_without_speculation_reports_no_verify_calls(peer: Peer) -> None:
    peer.modes = ["no_speculation"]
    got = generate(peer.address)
    assert (got.error, got.tokens, got.verify_calls, got.correct_drafts) == (None, 12, None, None)


def test_the_key_is_sent_and_no_proxy_is_used(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert generate(peer.address, api_key="k3y").error is None
    assert "authorization: bearer k3y" in peer.headers[-1].lower()


def test_a_cancelled_request_says_so_and_keeps_what_came(peer: Peer) -> None:
    peer.modes = ["stall"]

    async def cancel() -> Exchange:
        async with Client(peer.address, Limits(30, 30, 30, 60)) as client:
            exchange = Exchange()
            task = asyncio.ensure_future(client.generate(exchange, "a prompt", 12))
            while exchange.chunks < 2:
                assert not task.done(), exchange
                await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return exchange

    got = asyncio.run(cancel())
    assert got.error is not None
    assert (got.error.kind, got.tokens) == ("cancelled", 6)
    assert got.ended is not None


def test_counts_that_are_no_numbers_are_left_out(peer: Peer) -> None:
    peer.modes = ["odd_counts"]
    got = generate(peer.address)
    assert (got.error, got.tokens, got.cached_tokens, got.verify_calls) == (None, 12, None, None)


def test_an_answer_that_is_not_streamed_has_no_first_token(peer: Peer) -> None:
    got = generate(peer.address, stream=False)
    assert (got.error, got.tokens, got.verify_calls, got.text) == (None, 12, 4, peer.text)
    assert got.first is None
    assert got.last is not None
    peer.modes = ["error_body"]
    error = generate(peer.address, stream=False).error
    assert error is not None
    assert (error.kind, error.message) == ("error_in_stream", "the batch is broken")


@pytest.mark.parametrize("mode", ["ok", "chat_counts", "chat_thinks"])
def test_a_chat_completion_is_read_exactly(peer: Peer, mode: str) -> None:
    peer.modes = [mode]
    got = generate(peer.address, api="chat")
    assert (got.error, got.text, got.chunks, got.finish) == (None, peer.text, STEPS, "length")
    assert (got.tokens, got.verify_calls, got.correct_drafts) == (12, 4, 8)
    assert (got.prompt_tokens, got.cached_tokens) == (100, 1)
    # Counted by the engine with each chunk, or spread over the chunks by the count at the end.
    assert list(got.tick_tokens) == [3, 6, 9, 12]


@pytest.mark.parametrize(("mode", "kind"), [("chat_error", "error_in_stream"), ("chat_breaks", "truncated")])
def test_a_chat_completion_that_breaks_off_is_named(peer: Peer, mode: str, kind: str) -> None:
    peer.modes = [mode]
    error = generate(peer.address, api="chat").error
    assert error is not None
    assert error.kind == kind


def test_a_chat_completion_may_come_whole(peer: Peer) -> None:
    got = generate(peer.address, api="chat", stream=False)
    assert (got.error, got.text, got.tokens, got.verify_calls, got.first) == (None, peer.text, 12, 4, None)


def test_a_busy_engine_is_asked_again_as_often_as_allowed(peer: Peer) -> None:
    peer.retry_after = "0.05"
    peer.modes = ["busy", "unavailable", "ok"]
    got = generate(peer.address, retries=2)
    assert (got.error, got.retries, got.tokens) == (None, 2, 12)
    peer.modes = ["busy", "busy", "ok"]
    got = generate(peer.address, retries=1)
    assert got.error is not None
    assert (got.error.status, got.retries) == (429, 1)


def test_what_is_kept_of_a_long_answer_is_bounded() -> None:
    exchange = Exchange(max_ticks=64)
    for step in range(1, 10_001):
        exchange.tick(float(step), step * 3)
    assert len(exchange.tick_times) <= 65
    assert (exchange.chunks, exchange.first, exchange.last) == (10_000, 1.0, 10_000.0)
    assert all(tokens == 3 * at for at, tokens in exchange.ticks)
    assert exchange.ticks[-1] == (10_000.0, 30_000)
