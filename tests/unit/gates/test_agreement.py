"""The outputs that are compared with the baseline's: the same questions always, asked under load."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from treeline import material
from treeline_target import agreement, load_canaries, load_loops, load_spec
from treeline_target.load_client import Client

QUESTION = agreement.Question("agreement-01", "Go on")


def answer(ids: list[int], margins: list[float]) -> dict[str, Any]:
    """A native answer of SGLang with the two likeliest tokens of each place."""
    top = [[[-0.1, one, None], [-0.1 - margin, 7, None]] for one, margin in zip(ids, margins, strict=True)]
    return {
        "text": "text",
        "output_ids": ids,
        "meta_info": {"output_top_logprobs": top, "completion_tokens": 3},
    }


class Engine(BaseHTTPRequestHandler):
    """Answers like SGLang; `seen` are the requests, `broken` makes it fail."""

    seen: ClassVar[list[dict[str, Any]]] = []
    broken = False

    def do_POST(self) -> None:
        payload = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).seen.append({"path": self.path, **payload})
        if self.path.startswith("/v1"):
            reply: Any = {"choices": [{"message": {"content": "Paris"}, "finish_reason": "stop"}]}
        else:
            reply = answer([11, 12, 13], [4.0, 0.25, 3.0])
            if not payload.get("return_logprob"):
                del reply["meta_info"]["output_top_logprobs"]
        body = json.dumps(reply).encode()
        self.send_response(500 if self.broken else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def engine() -> Iterator[str]:
    Engine.seen, Engine.broken = [], False
    server = ThreadingHTTPServer(("127.0.0.1", 0), Engine)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def ask(url: str, with_margins: bool) -> agreement.Sample:
    async def asked() -> agreement.Sample:
        async with Client(url, load_spec.Limits(request_s=5)) as client:
            return await agreement.ask(client, QUESTION, with_margins=with_margins)

    return asyncio.run(asked())


def test_the_questions_are_the_same_in_every_sweep() -> None:
    texts = material.prompts()
    first = agreement.questions(texts)
    assert first == agreement.questions(list(texts))
    assert len({one.sha256 for one in first}) == agreement.COUNT == len({one.id for one in first})
    assert first[0].sha256 != agreement.questions(["another text\n" * 50])[0].sha256


def test_margins_are_asked_of_the_baseline_only(engine: str) -> None:
    sample = ask(engine, True)
    assert (sample.tokens, sample.margins, sample.error) == ((11, 12, 13), (4.0, 0.25, 3.0), None)
    assert Engine.seen[-1]["return_logprob"] is True
    assert Engine.seen[-1]["sampling_params"] == {
        "temperature": 0,
        "max_new_tokens": agreement.TOKENS,
        "ignore_eos": True,
    }
    bare = ask(engine, False)
    assert (bare.tokens, bare.margins) == ((11, 12, 13), None)
    assert "return_logprob" not in Engine.seen[-1]


def test_an_engine_that_fails_gives_a_sample_that_says_so(engine: str) -> None:
    Engine.broken = True
    sample = ask(engine, True)
    assert sample.tokens is None
    assert str(sample.error).startswith("http_status: HTTP 500")


def test_older_answers_have_their_ids_in_the_logprobs() -> None:
    given = {"text": "t", "meta_info": {"output_token_logprobs": [[-0.1, 5, None], [-0.2, 6, None]]}}
    assert agreement.read(QUESTION, given).tokens == (5, 6)


@given(
    st.recursive(st.none() | st.integers() | st.text(max_size=3), lambda inner: st.lists(inner, max_size=3))
)
def test_whatever_comes_is_read(junk: Any) -> None:
    sample = agreement.read(QUESTION, {"output_ids": junk, "meta_info": {"output_top_logprobs": junk}})
    assert sample.tokens is None or all(isinstance(one, int) for one in sample.tokens)
    assert sample.margins is None or len(sample.margins) == len(sample.tokens or ())


@pytest.mark.parametrize("with_samples", [True, False])
def test_canaries_and_samples_are_asked_in_the_busiest_phase(
    engine: str, tmp_path: Path, with_samples: bool
) -> None:
    spec = load_spec.Spec(
        base_url=engine,
        client_keys=[load_spec.ClientKey(2)],
        canaries=load_spec.parse_canaries([{"id": "c", "prompt": "capital?", "expect": "Paris"}] * 20),
        prompts=["a line of text\n" * 40],
        prompts_seed="seed",
        out_dir=str(tmp_path),
    )
    alone: list[load_canaries.Answer] = []
    busy: list[load_canaries.Answer] = []
    samples: list[agreement.Sample] = []

    async def both() -> None:
        async with Client(spec.base_url, spec.limits) as client:
            await load_canaries.ask_alone(client, spec.canaries, "m", alone)
            work = load_loops.Work.of(client, spec)
            run = load_loops.Run(load_spec.ClientKey(1), "canary_load")
            wanted = samples if with_samples else None
            await load_canaries.ask_busy(work, run, "m", busy, wanted, with_margins=True)

    asyncio.run(both())
    assert [one.ok for one in alone] == [True] * load_canaries.SINGLE
    assert [one.ok for one in busy] == [True] * 20
    assert len(samples) == (agreement.COUNT if with_samples else 0)
    assert all(one.margins for one in samples)
