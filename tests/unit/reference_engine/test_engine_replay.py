"""Replay mode: complete counts on every endpoint, and the same text whichever way it is asked for."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine_process import SOURCE
from treeline_reference_engine import replay
from treeline_reference_engine.replay_frames import Frames, Recording, load_recordings, made_up

PARAMS = {"temperature": 0, "max_new_tokens": 50, "ignore_eos": True}


class Server:
    """One replay process."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "treeline_reference_engine.replay", "--port", "0", *arguments],
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            text=True,
        )
        assert self.process.stderr is not None
        self.port = int(self.process.stderr.readline().rsplit(":", 1)[1])

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            link.request(method, path, None if body is None else json.dumps(body))
            answer = link.getresponse()
            return answer.status, answer.read().decode()
        finally:
            link.close()

    def stream(self, path: str, body: Any) -> list[Any]:
        text = self.ask("POST", path, {**body, "stream": True})[1]
        events = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
        assert events[-1] == "[DONE]"
        return [json.loads(event) for event in events[:-1]]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    one = Server("--tokens-per-frame", "4")
    yield one
    one.process.send_signal(signal.SIGTERM)
    one.process.wait(timeout=10)


def test_native_stream(server: Server) -> None:
    frames = server.stream("/generate", {"text": "x" * 400, "sampling_params": PARAMS})
    assert [frame["meta_info"]["completion_tokens"] for frame in frames] == [1, *range(5, 50, 4), 50]
    assert all(b["text"].startswith(a["text"]) for a, b in itertools.pairwise(frames))
    meta = frames[-1]["meta_info"]
    assert meta["prompt_tokens"] == 100
    assert meta["cached_tokens"] == 0
    assert meta["e2e_latency"] > 0
    assert meta["finish_reason"] == {"type": "length", "length": 50}
    calls, correct = meta["spec_verify_ct"], meta["spec_num_correct_drafts"]
    assert 1 + calls + correct == 50 == len(frames[-1]["output_ids"])
    histogram = meta["spec_correct_drafts_histogram"]
    assert sum(histogram) == calls
    assert sum(count * number for number, count in enumerate(histogram)) == correct


def test_chat_stream_and_whole_answers(server: Server) -> None:
    body = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 30}
    frames = server.stream("/v1/chat/completions", {**body, "stream_options": {"include_usage": True}})
    assert frames[0]["choices"][0]["delta"]["role"] == "assistant"
    text = "".join(frame["choices"][0]["delta"]["content"] for frame in frames[:-1])
    assert frames[-2]["choices"][0]["finish_reason"] == "length"
    assert frames[-1]["usage"]["completion_tokens"] == 30
    assert len(text.split()) == 30  # the made-up recordings have a word to a token
    whole = json.loads(server.ask("POST", "/v1/chat/completions", body)[1])
    assert len(whole["choices"][0]["message"]["content"].split()) == 30
    native = json.loads(server.ask("POST", "/generate", {"text": "x", "sampling_params": PARAMS})[1])
    assert len(native["text"].split()) == 50 == native["meta_info"]["completion_tokens"]


def test_pages_and_counters(server: Server) -> None:
    for path in ("/health", "/health_generate", "/v1/models", "/model_info", "/get_load", "/flush_cache"):
        assert server.ask("GET", path)[0] == 200, path
    info = json.loads(server.ask("GET", "/server_info")[1])
    assert info["engine"] == "replay"
    assert info["internal_states"][0]["avg_spec_accept_length"] is None
    before = server.ask("GET", "/metrics")[1]
    server.ask("POST", "/generate", {"text": "x", "sampling_params": {"max_new_tokens": 7}})
    after = server.ask("GET", "/metrics")[1]
    assert _counter(after) - _counter(before) == 7
    assert server.ask("GET", "/nowhere")[0] == 404
    for tokens in (0, 100_000):
        assert server.ask("POST", "/generate", {"sampling_params": {"max_new_tokens": tokens}})[0] == 400


def _counter(text: str) -> float:
    (line,) = [line for line in text.splitlines() if line.startswith("sglang:generation_tokens_total{")]
    return float(line.rsplit(" ", 1)[1])


def test_one_connection_takes_many_requests(server: Server) -> None:
    link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    for stream in (True, False, True):
        link.request(
            "POST", "/generate", json.dumps({"text": "x", "sampling_params": PARAMS, "stream": stream})
        )
        assert b"output_ids" in link.getresponse().read()
    link.close()


def test_a_reader_that_goes_away_leaves_nothing(server: Server) -> None:
    link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    body = {"text": "x", "sampling_params": {"max_new_tokens": 4000}, "stream": True}
    link.request("POST", "/generate", json.dumps(body))
    link.getresponse().read(10)
    link.close()
    deadline = time.monotonic() + 10
    while json.loads(server.ask("GET", "/get_load")[1])[0]["num_reqs"]:
        assert time.monotonic() < deadline


def test_the_beat_is_kept() -> None:
    one = Server("--tokens-per-frame", "8", "--step-ms", "20")
    try:
        answers: list[float] = []

        def ask() -> None:
            began = time.monotonic()
            one.stream("/generate", {"text": "x", "sampling_params": {"max_new_tokens": 81}})
            answers.append(time.monotonic() - began)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert min(answers) >= 10 * 0.02 * 0.9  # ten beats behind the first frame
    finally:
        one.process.kill()
        one.process.wait()


def test_recordings(tmp_path: Path, model_dir: Path) -> None:
    path = tmp_path / "recording.json"
    path.write_text(json.dumps([{"pieces": ["Hel", "lo", " you"]}]))
    (recording,) = load_recordings(path)
    assert recording == Recording(("Hel", "lo", " you"), (1, 2, 3))
    frames, text, ids = Frames([recording], 2, 8, "m").of(0, 5, False)
    assert (text, ids, len(frames)) == ("Hello youHello", [1, 2, 3, 1, 2], 2)
    path.write_text("[]")
    with pytest.raises(ValueError, match="a list of recordings"):
        load_recordings(path)
    assert len({recording.pieces for recording in made_up()}) == len(made_up())
    taken = replay.record(model_dir)
    assert all(len(recording.pieces) == len(recording.ids) for recording in taken)
