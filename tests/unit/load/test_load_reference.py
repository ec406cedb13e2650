"""Against the reference engine: acceptance is that of the measured requests, whatever came before them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from treeline import cross_checks, material
from treeline_reference_engine import train
from treeline_target import load_run, load_spec
from treeline_target.load_spec import ClientKey, Limits

SOURCE = Path(train.__file__).resolve().parents[1]
FLAGS = (
    *("--time-scale", "0.001", "--decode-time-scale", "0.02", "--max-running-requests", "16"),
    *(
        "--speculative-algorithm",
        "DDTREE",
        "--speculative-ddtree-budget",
        "8",
        "--speculative-ddtree-topk",
        "4",
    ),
    *("--enable-metrics", "--decode-log-interval", "4"),
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model that knows the prompts."""
    folder = tmp_path_factory.mktemp("model")
    train.train_into(folder, train.training_text(60_000, [], train.CANARIES, train.PROMPTS))
    return folder


@contextmanager
def running(model: Path, log: Path, *flags: str) -> Iterator[str]:
    """The address of a reference engine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "treeline_reference_engine", "--model-path", str(model)]
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [*command, "--port", str(port), *FLAGS, *flags],
            stdout=stream,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        )
    try:
        address = f"http://127.0.0.1:{port}"
        wait_ready(address, process, log)
        yield address
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture(scope="module")
def engine(model: Path) -> Iterator[str]:
    """The address of one that serves all tests here."""
    with running(model, model / "log") as address:
        yield address


def wait_ready(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(address + "/ready", timeout=2):  # noqa: S310 - our own loopback address
                return
        except OSError:
            time.sleep(0.1)
    pytest.fail(f"the engine was not ready:\n{log.read_text()}")


def load(address: str, out: Path, *concurrencies: int, **more: Any) -> dict[int, dict[str, Any]]:
    """The points of one load, by concurrency."""
    spec = load_spec.Spec(
        base_url=address,
        client_keys=[ClientKey(concurrency) for concurrency in concurrencies],
        canaries=load_spec.parse_canaries(material.canaries()[:3]),
        prompts=material.prompts(),
        prompts_seed="seed",
        out_dir=str(out),
        requests_per_key=8,
        max_tokens=32,
        limits=Limits(total_s=90),
        **more,
    )
    result = load_run.run(spec, load_run.Life())
    assert result["outcome"] == "done", result["msg"]
    cross_checks.settle(result)
    return {point["concurrency"]: point for point in result["points"]}


def test_acceptance_is_unchanged_by_what_was_served_before(engine: str, tmp_path: Path) -> None:
    alone = load(engine, tmp_path, 4)[4]
    after_others = load(engine, tmp_path, 8, 4)[4]
    unflushed = load(engine, tmp_path, 4, flush=False, retries=1)[4]
    assert alone["failed"] == after_others["failed"] == 0
    assert alone["prompts_sha256"] == after_others["prompts_sha256"]
    for name in ("al", "completion_tokens", "verify_calls", "correct_drafts"):
        assert alone[name] == after_others[name] == unflushed[name], name
    assert alone["al"] > 1.5
    # The engine's own mean over its life holds all three loads, and is another figure.
    assert (alone["simulated"], alone["engine"]) == (True, "reference")


def test_acceptance_is_that_of_all_ranks_whichever_was_asked(
    engine: str, model: Path, tmp_path: Path
) -> None:
    one_rank = load(engine, tmp_path, 4)[4]
    with running(model, tmp_path / "log", "--dp-size", "3") as address:
        ranks = load(address, tmp_path, 4)[4]
    for name in ("al", "completion_tokens", "verify_calls"):
        assert ranks[name] == one_rank[name], name
    found = {check["name"]: check for check in ranks["cross_checks"]}
    assert found["al_by_metrics"]["agrees"] is True, found["al_by_metrics"]
    assert "of 3 ranks" in found["al_by_ranks"]["detail"]


def test_the_engines_own_counters_agree(engine: str, tmp_path: Path) -> None:
    point = load(engine, tmp_path, 8)[8]
    found = {check["name"]: check["agrees"] for check in point["cross_checks"]}
    assert found["tokens_by_metrics"] is True, point["cross_checks"]
    assert found["al_by_metrics"] is True, point["cross_checks"]
    assert found["prompt_tokens_by_metrics"] is True
    assert found["al_by_drafts"] is True
    # So short a load may pass between two looks at the engine.
    assert point["server_peak_running"] in (None, *range(1, 9))
    assert point["cache_flushed"] is True


def test_contamination_of_the_prefix_cache_shows(engine: str, tmp_path: Path) -> None:
    clean = load(engine, tmp_path, 4)[4]
    dirty = load(engine, tmp_path, 4, flush=False)[4]
    assert clean["prefix_cache_share"] < 0.01 < dirty["prefix_cache_share"]


def test_the_same_requests_go_as_chat(engine: str, tmp_path: Path) -> None:
    chat = load(engine, tmp_path, 4, api="chat")[4]
    assert (chat["failed"], chat["completion_tokens"]) == (0, 8 * 32)
    assert chat["ttft_p50_ms"] > 0
