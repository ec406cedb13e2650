"""A real engine process: phases, endpoints, drain, and the ways it dies."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import re
import signal
import socket
import threading
import time
from pathlib import Path

import pytest
import yaml
from engine_process import Engine, StartEngine
from treeline_reference_engine import train

TREE = ("--speculative-algorithm", "DDTREE", "--speculative-ddtree-topk", "8", "--tp-size", "8")
PHASES = (
    r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] server_args=ServerArgs\(model_path=",
    r"TP0\] sglang is using nccl==",
    r"TP0\] Init torch distributed ends\. elapsed=",
    r"TP0\] Load weight begin\. avail mem=",
    r"TP0\] Load weight end\. elapsed=\d+\.\d+ s, type=\w+, avail mem=",
    r"TP0\] KV Cache is allocated\. dtype: torch\.bfloat16, #tokens: \d+, K size:",
    r"TP0\] Memory pool end\. avail mem=",
    r"TP0\] Load weight begin\. avail mem=",
    r"TP0\] Load weight end\. elapsed=",
    r"TP0\] Initialized DDTree worker\. block_size=8, tree_budget=8, max_tree_nodes=9$",
    r"TP0\] Capture target verify CUDA graph begin\. backend=full, num_tokens_per_req=9, avail mem=",
    r"^Capturing batches \(bs=4 avail_mem=\d+\.\d+ GB\):   0%\|",
    r"^Capturing batches \(bs=1 avail_mem=\d+\.\d+ GB\): 100%\|",
    r"TP0\] Capture target verify CUDA graph end\. bs=\[1, 2, 3, 4\], elapsed=",
    r"TP0\] max_total_num_tokens=\d+, chunked_prefill_size=\d+, .*max_running_requests=4, context_len=",
    r"INFO:     Started server process",
    r"INFO:     Uvicorn running on http://127\.0\.0\.1:\d+ \(Press CTRL\+C to quit\)",
    r'"GET /model_info HTTP/1\.1" 200 OK',
    r"TP0\] Prefill batch, #new-seq: 1, #new-token: \d+, #cached-token: 0, token usage: 0\.00, "
    r"#running-req: 0, #queue-req: 0$",
    r'"POST /generate HTTP/1\.1" 200 OK',
    r"\] The server is fired up and ready to roll!$",
)
DECODE = re.compile(
    r"TP0\] Decode batch, #running-req: \d+, #token: \d+, token usage: \d\.\d\d, accept len: (\d\.\d\d), "
    r"accept rate: \d\.\d\d, cuda graph: True, gen throughput \(token/s\): \d+\.\d\d, #queue-req: \d+$",
    re.MULTILINE,
)


def _positions(log: str) -> list[int]:
    at, out = 0, []
    for pattern in PHASES:
        found = re.compile(pattern, re.MULTILINE).search(log, at)
        assert found, f"{pattern} is not in the log after {at}:\n{log}"
        at = found.end()
        out.append(at)
    return out


def test_life(start_engine: StartEngine) -> None:
    engine = start_engine(
        *TREE, "--speculative-ddtree-budget", "8", "--max-running-requests", "4", "--enable-metrics",
        "--decode-log-interval", "5", "--decode-time-scale", "0.2", scale="0.003",
    )  # fmt: skip
    engine.wait_for("Load weight begin")
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", engine.port)):
        pass  # closed until the scheduler is ready
    engine.wait_ready()
    _positions(engine.log)
    _check_probes(engine)
    _check_server_info(engine)
    for canary in yaml.safe_load(train.CANARIES.read_text()):
        assert re.search(canary["expect"], engine.chat(canary["prompt"]))
    _check_generate(engine)
    _check_stream(engine)
    _check_queueing(engine)
    _check_disconnect(engine)
    _check_metrics(engine)
    _check_cache(engine)
    _check_refusals(engine)
    assert all(1.0 <= float(length) <= 8.0 for length in DECODE.findall(engine.log))
    assert DECODE.search(engine.log)
    _check_drain(engine)


def _check_probes(engine: Engine) -> None:
    for path in ("/health", "/health_generate", "/ready", "/ping", "/model_info", "/v1/models", "/get_load"):
        assert engine.request("GET", path)[0] == 200, path


def _check_server_info(engine: Engine) -> None:
    info = engine.info()
    expected = {
        "speculative_algorithm": "DDTREE",
        "speculative_ddtree_budget": 8,
        "speculative_ddtree_topk": 8,
        "speculative_num_draft_tokens": 8,
        "max_running_requests": 4,
        "cuda_graph_max_bs_decode": 4,
        "disable_cuda_graph": False,
        "attention_backend": None,
        "tp_size": 8,
        "engine": "reference",
        "simulated_timing": True,
        "fault": {"profile": "none", "rule": None, "extrapolated": False},
    }
    assert {name: info[name] for name in expected} == expected
    # flat, as SGLang has it
    assert info["status"] == "ready"
    assert info["max_req_input_len"] == min(info["context_length"], info["max_total_num_tokens"]) - 6
    state = info["internal_states"][0]
    assert state["effective_max_running_requests_per_dp"] == 4
    assert state["decode_cuda_graph_bs"] == [1, 2, 3, 4]
    assert state["simulated"]["steps"] > 0
    assert json.loads(engine.request("GET", "/get_server_info")[1])["version"] == info["version"]


def _check_generate(engine: Engine) -> None:
    answer = engine.generate("The planner moved the tide table and", 64, ignore_eos=True)
    meta = answer["meta_info"]
    assert meta["completion_tokens"] == 64 == len(answer["output_ids"])
    assert meta["finish_reason"] == {"type": "length", "length": 64}
    calls = meta["spec_verify_ct"]
    assert meta["spec_accept_length"] == 64 / calls
    assert sum(meta["spec_correct_drafts_histogram"]) == calls
    assert meta["spec_num_proposed_drafts"] == 7 * calls
    # the first token comes from the prefill
    assert 63 <= calls + meta["spec_num_correct_drafts"] <= 63 + 7


def _check_stream(engine: Engine) -> None:
    params = {"temperature": 0, "max_new_tokens": 40, "ignore_eos": True}
    prompt = "def merge_windows(windows, total=12):"
    body = {"text": prompt, "sampling_params": params, "stream": True}
    _, text = engine.request("POST", "/generate", body)
    events = [line[6:] for line in text.split("\n\n") if line]
    assert events[-1] == "[DONE]"
    texts = [json.loads(event)["text"] for event in events[:-1]]
    assert all(b.startswith(a) for a, b in itertools.pairwise(texts))
    assert texts[-1] == engine.generate(prompt, 40, ignore_eos=True)["text"]
    chat = {"messages": [{"role": "user", "content": "What is 17 + 25? Answer with the number only."}]}
    options = {"stream": True, "temperature": 0, "stream_options": {"include_usage": True}}
    _, text = engine.request("POST", "/v1/chat/completions", chat | options)
    chunks = [json.loads(line[6:]) for line in text.split("\n\n") if line and not line.endswith("[DONE]")]
    assert "".join(chunk["choices"][0]["delta"]["content"] for chunk in chunks[:-1]) == "42"
    assert chunks[-1]["usage"]["completion_tokens"] > 0


def _check_queueing(engine: Engine) -> None:
    answers: list[str] = []

    def ask() -> None:
        answers.append(engine.generate("A new colleague tested", 200, ignore_eos=True)["text"])

    threads = [threading.Thread(target=ask) for _ in range(7)]
    for thread in threads:
        thread.start()
    seen = []
    while any(thread.is_alive() for thread in threads):
        seen.append(json.loads(engine.request("GET", "/get_load")[1])[0])
        time.sleep(0.01)
    assert len(answers) == 7
    assert len(set(answers)) == 1  # neighbours in the batch change nothing
    assert max(load["num_waiting_reqs"] for load in seen) == 3
    assert max(load["num_reqs"] - load["num_waiting_reqs"] for load in seen) == 4


def _check_disconnect(engine: Engine) -> None:
    params = {"temperature": 0, "max_new_tokens": 100_000, "ignore_eos": True}
    for stream in (True, False):
        link = http.client.HTTPConnection("127.0.0.1", engine.port, timeout=10)
        link.request(
            "POST", "/generate", json.dumps({"text": "x", "sampling_params": params, "stream": stream})
        )
        _wait_for_load(engine, 1)
        link.close()
        _wait_for_load(engine, 0)


def _wait_for_load(engine: Engine, requests: int) -> None:
    deadline = time.monotonic() + 10
    while json.loads(engine.request("GET", "/get_load")[1])[0]["num_reqs"] != requests:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _check_metrics(engine: Engine) -> None:
    status, text = engine.request("GET", "/metrics")
    assert status == 200
    values = dict(re.findall(r"^(sglang:\w+)\{[^}]*\} (\S+)$", text, re.MULTILINE))
    for name in ("num_running_reqs", "num_queue_reqs", "cached_tokens_total", "prompt_tokens_total"):
        assert f"sglang:{name}" in values
    calls = float(values["sglang:spec_verify_calls_total"])
    assert 1.0 < float(values["sglang:generation_tokens_total"]) / calls < 8.0
    assert 1.0 <= float(values["sglang:spec_accept_length"]) <= 8.0
    assert float(values["sglang:gen_throughput"]) > 0


def _check_cache(engine: Engine) -> None:
    prompt = "While the others slept, the gardener weighed the brass bell beside the river and the west gate."
    assert engine.generate(prompt, 1)["meta_info"]["cached_tokens"] == 0
    again = engine.generate(prompt, 1)["meta_info"]
    assert again["cached_tokens"] == again["prompt_tokens"] // 16 * 16 > 0
    assert engine.request("POST", "/flush_cache")[0] == 200
    assert engine.generate(prompt, 1)["meta_info"]["cached_tokens"] == 0


def _check_refusals(engine: Engine) -> None:
    for body in ({}, {"text": ""}, {"text": "x", "sampling_params": {"max_new_tokens": "many"}}):
        status, text = engine.request("POST", "/generate", body)
        assert status == 400
        assert json.loads(text)["error"]["message"]
    assert engine.request("POST", "/v1/chat/completions", {"messages": [{"role": "cook"}]})[0] == 400


def _check_drain(engine: Engine) -> None:
    answers: list[dict[str, object]] = []
    thread = threading.Thread(target=lambda: answers.append(engine.generate("x", 300, ignore_eos=True)))
    thread.start()
    _wait_for_load(engine, 1)
    assert engine.stop() == 0
    thread.join()
    assert answers[0]["meta_info"]["completion_tokens"] == 300  # type: ignore[index]
    for text in ("SIGTERM received. signum=15", "Gracefully exiting... Remaining number of requests 0"):
        assert text in engine.log
    assert "Application shutdown complete." in engine.log


def test_a_server_that_drains_takes_no_new_request(start_engine: StartEngine) -> None:
    engine = start_engine(*TREE, "--decode-time-scale", "4").wait_ready()
    answers: list[dict[str, object]] = []
    thread = threading.Thread(target=lambda: answers.append(engine.generate("x", 300, ignore_eos=True)))
    thread.start()
    _wait_for_load(engine, 1)
    engine.process.terminate()
    engine.wait_for("SIGTERM received.")
    message = {"messages": [{"role": "user", "content": "x"}]}
    for path, body in (
        ("/generate", {"text": "x"}),
        ("/v1/completions", {"prompt": "x"}),
        ("/v1/chat/completions", message),
        ("/v1/chat/completions", {**message, "stream": True}),
    ):
        status, text = engine.request("POST", path, body)
        assert (status, json.loads(text)["type"]) == (503, "ServiceUnavailable"), path
    for path in ("/health", "/ready"):
        assert engine.request("GET", path)[0] == 503
    assert engine.process.wait(timeout=20) == 0
    thread.join()
    assert answers[0]["meta_info"]["completion_tokens"] == 300  # type: ignore[index]


@pytest.mark.parametrize(
    ("budget", "maxreq", "first", "rank"),
    [
        (16, 128, "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublas", "TP3"),
        (16, 64, "torch.AcceleratorError: CUDA error: an illegal memory access was encountered", "TP2"),
    ],
)
def test_death_in_graph_capture(
    start_engine: StartEngine, budget: int, maxreq: int, first: str, rank: str
) -> None:
    engine = start_engine(
        *TREE, "--speculative-ddtree-budget", str(budget), "--max-running-requests", str(maxreq),
        "--fault-profile", "b300-kimi-k26",
    )  # fmt: skip
    assert engine.process.wait(timeout=30) == -signal.SIGKILL
    log = engine.log
    order = [
        f"Capturing batches (bs={maxreq} ",
        f"{rank}] Scheduler hit an exception: Traceback (most recent call last):",
        first,
        "Exception: Capture cuda graph failed: CUDA error: ",
        "Possible solutions:",
        "TP0] Scheduler hit an exception: ",
        "] Received sigquit from a child process. It usually means the child failed.",
    ]
    places = [log.find(text) for text in order]
    assert -1 not in places
    assert places == sorted(places)
    assert "Uvicorn running" not in log


def test_garbled_only_under_graphs(start_engine: StartEngine) -> None:
    common = (*TREE, "--speculative-ddtree-budget", "64", "--max-running-requests", "16")
    engine = start_engine(
        *common, "--fault-profile", "b300-kimi-k26", "--decode-time-scale", "0.1"
    ).wait_ready()
    meta = engine.generate("The planner moved the tide table and", 60, ignore_eos=True)["meta_info"]
    assert meta["spec_verify_ct"] == 59
    assert meta["spec_num_correct_drafts"] == 0
    assert "42" not in engine.chat("What is 17 + 25? Answer with the number only.")
    assert engine.info()["fault"] == {
        "profile": "b300-kimi-k26",
        "rule": "stale-metadata-extrapolated",
        "extrapolated": True,
    }
    assert engine.stop() == 0
    # a batch larger than the largest graph runs eagerly, and right
    eager = start_engine(*common, "--disable-cuda-graph", "--fault-profile", "garbled").wait_ready()
    assert eager.chat("What is 17 + 25? Answer with the number only.") == "42"


def test_death_while_serving(start_engine: StartEngine) -> None:
    engine = start_engine(
        *TREE, "--fault-profile", "crash-serving", "--decode-time-scale", "0.1"
    ).wait_ready()
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        _ask_often(engine, 25)
    assert engine.process.wait(timeout=10) == -signal.SIGKILL
    assert "TP4] Scheduler hit an exception: Traceback" in engine.log
    assert "SIGQUIT received. signum=3, frame=None. It usually means one child failed." in engine.log


def _ask_often(engine: Engine, times: int) -> None:
    for _ in range(times):
        engine.generate("x", 4)


def test_silent_fallback(start_engine: StartEngine) -> None:
    engine = start_engine(*TREE, "--fault-profile", "spec-off", "--decode-log-interval", "5").wait_ready()
    assert "spec_verify_ct" not in engine.generate("x", 12, ignore_eos=True)["meta_info"]
    assert engine.info()["speculative_algorithm"] == "DDTREE"
    assert "Decode batch" in engine.log
    assert "accept len" not in engine.log


def test_plain_decoding_with_a_key(start_engine: StartEngine) -> None:
    engine = start_engine("--api-key", "sesame").wait_ready()
    assert "] Capture target decode CUDA graph begin. backend=full, num_tokens_per_req=1," in engine.log
    assert " TP0]" not in engine.log  # one rank: no rank in the prefix
    assert engine.request("GET", "/v1/models")[0] == 401
    assert engine.request("GET", "/v1/models", headers={"Authorization": "Bearer sesame"})[0] == 200
    assert engine.request("GET", "/health")[0] == 200
    assert (
        "sesame" not in engine.request("GET", "/server_info", headers={"Authorization": "Bearer sesame"})[1]
    )
    assert engine.stop() == 0


def test_killed_and_hung_starts(start_engine: StartEngine) -> None:
    killed = start_engine(*TREE, "--fault-profile", "killed-in-weights")
    hung = start_engine(*TREE, "--fault-profile", "hang-in-capture")
    assert killed.process.wait(timeout=30) == 1
    assert "RuntimeError: Rank 0 scheduler died during initialization (exit code: -9)." in killed.log
    hung.wait_for("Capturing batches")
    child = _children(hung.process.pid)
    assert hung.stop() == -signal.SIGTERM
    deadline = time.monotonic() + 5
    while any(_alive(pid) for pid in child):  # the scheduler does not outlive its parent
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_orderly_exit_of_a_profile(start_engine: StartEngine, tmp_path: Path) -> None:
    profile = tmp_path / "leave.json"
    profile.write_text(json.dumps({"rules": [{"fault": {"kind": "exit", "after_s": 0.5}}]}))
    engine = start_engine("--fault-profile", str(profile)).wait_ready()
    assert engine.process.wait(timeout=20) == 0


def test_dead_scheduler_ends_the_server(start_engine: StartEngine) -> None:
    engine = start_engine(*TREE).wait_ready()
    (child,) = _children(engine.process.pid)
    os.kill(child, signal.SIGKILL)
    assert engine.process.wait(timeout=10) == -signal.SIGKILL
    assert "Subprocess scheduler_0" in engine.log
    assert "crashed with exit code -9. Triggering SIGQUIT for cleanup..." in engine.log


def test_port_in_use(start_engine: StartEngine) -> None:
    first = start_engine().wait_ready()
    second = start_engine("--port", str(first.port))
    assert second.process.wait(timeout=30) == 1
    assert "address already in use" in second.log


def _children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as stream:  # noqa: PTH123
        return [int(word) for word in stream.read().split()]


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stream:  # noqa: PTH123
            return stream.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
