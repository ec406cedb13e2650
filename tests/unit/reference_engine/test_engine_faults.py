"""Each profile that ends the engine, run as a process, and what the classifier makes of its journal."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from engine_process import SOURCE
from journal_capture import JournalCapture, engine_command
from treeline.signatures import classify_journal
from treeline.signatures.verdict import LogVerdict
from treeline_reference_engine import profiles
from treeline_reference_engine.data_files import packaged

CRASHES = list(packaged("crashes"))
LARGEST = 8
_ARGUMENTS = (
    "--speculative-algorithm", "DDTREE", "--speculative-ddtree-budget", "8", "--speculative-ddtree-topk", "4",
    "--max-running-requests", str(LARGEST), "--tp-size", "8",
    "--time-scale", "0.0002", "--decode-time-scale", "0.01",
)  # fmt: skip
_DEATHS = {"bad-args": 2}


@dataclass(frozen=True)
class Death:
    """How one engine ended."""

    code: int
    text: str
    verdict: LogVerdict
    kernel: str


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _ask(port: int) -> None:
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        body = {"text": "x", "sampling_params": {"temperature": 0, "max_new_tokens": 4}}
        link.request("POST", "/generate", json.dumps(body), {"Content-Type": "application/json"})
        link.getresponse().read()
    except (OSError, http.client.HTTPException):
        pass  # it is to die of this
    finally:
        link.close()


def _end(name: str, model: Path, folder: Path) -> Death:
    port, kernel = _free_port(), folder / f"{name}.kernel"
    command = engine_command(
        "--model-path", str(model), "--port", str(port), "--fault-profile", name, *_ARGUMENTS
    )
    paths = {"PYTHONPATH": str(SOURCE), "TREELINE_LAB_KERNEL_LOG": str(kernel)}
    capture = JournalCapture(command, paths)
    try:
        if profiles.load(name).rules[0].fault.phase == "serving":
            while "fired up" not in capture.text:
                assert capture.read(20.0), capture.text
            for _ in range(4):
                _ask(port)
        code = capture.wait()
        journal = capture.save(folder / f"{name}.json")
    finally:
        capture.kill()
    said = kernel.read_text() if kernel.exists() else ""
    lines = folder / f"{name}.kernel.log"
    lines.write_text("".join(f"{stamp} host kernel: {line}\n" for stamp, line in _split(said)))
    return Death(
        code, capture.text, classify_journal(journal, alive=False, kernel=lines if said else None), said
    )


def _split(kernel: str) -> list[tuple[str, str]]:
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in kernel.splitlines()]


@pytest.fixture(scope="session")
def deaths(model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Death]:
    """Every profile of crashes.yml, played once."""
    folder = tmp_path_factory.mktemp("deaths")
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 2) as pool:
        return dict(zip(CRASHES, pool.map(lambda name: _end(name, model_dir, folder), CRASHES), strict=True))


def _expected(name: str) -> dict[str, Any]:
    expect = dict(profiles.load(name).rules[0].expect)
    if expect.get("captured_bs") == "largest":
        expect["captured_bs"] = LARGEST
    return expect


@pytest.mark.parametrize("name", CRASHES)
def test_the_classifier_finds_what_the_profile_declares(name: str, deaths: dict[str, Death]) -> None:
    verdict, expect = deaths[name].verdict, _expected(name)
    found = {"class": verdict.class_, "phase": verdict.phase, "captured_bs": verdict.captured_bs}
    wanted = {"captured_bs": None, **{key: expect[key] for key in found if key in expect}}
    if "rank" in expect:
        found["rank"], wanted["rank"] = verdict.rank, expect["rank"]
    assert found == wanted, deaths[name].text[-4000:]
    assert set(expect.get("secondary", [])) <= set(verdict.secondary)


@pytest.mark.parametrize("name", CRASHES)
def test_it_dies_as_the_real_one(name: str, deaths: dict[str, Death]) -> None:
    fault = profiles.load(name).rules[0].fault
    early = fault.kind == "port_taken" or fault.error.death in ("parent", "exec", "killed")
    assert deaths[name].code == (_DEATHS.get(name, 1) if early else -signal.SIGKILL)
    assert ("HEALTH" in deaths[name].text) is False
    if fault.kernel:
        assert len(deaths[name].kernel.splitlines()) == len(fault.kernel)
        assert "{" not in deaths[name].kernel


def test_every_kind_and_layer_has_a_profile(deaths: dict[str, Death]) -> None:
    from treeline.signatures.catalogue import load_catalogue

    signatures = load_catalogue(None)
    classes = {str(_expected(name)["class"]) for name in CRASHES} - {"unknown"}
    kinds = {signatures.by_id(name).kind for name in classes}
    assert kinds >= {"config", "node", "transient", "setup", "none"}
    assert len(classes) >= 45


def test_ranks_take_turns(deaths: dict[str, Death]) -> None:
    text = deaths["cublas-capture"].text
    first = text.index("TP3] Scheduler hit an exception")
    assert first < text.index("TP1] Scheduler hit") < text.index("CUBLAS_STATUS_EXECUTION_FAILED")
    assert text.count("Capture cuda graph failed: CUDA error: CUBLAS") == 4
    assert text.index("TP3] Scheduler") < text.index("Received sigquit from a child process.")


def test_the_parent_may_speak_first(deaths: dict[str, Death]) -> None:
    text = deaths["torch-oom-serving"].text
    assert text.index("SIGQUIT received.") < text.index("torch.OutOfMemoryError")
    assert text.count("SIGQUIT received.") == 1


def test_an_abort_is_told_by_the_parent(deaths: dict[str, Death]) -> None:
    text = deaths["illegal-address-abort"].text
    assert "Traceback" not in text
    assert "Subprocess scheduler_1 (pid=" in text
    assert "crashed with exit code -6. Triggering SIGQUIT for cleanup..." in text
