"""A small trained model and a running engine for this folder's tests."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_process import Engine, StartEngine
from treeline_reference_engine import train
from treeline_reference_engine.model import NgramModel


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with the canaries, all prompts and little else."""
    folder = tmp_path_factory.mktemp("model")
    train.train_into(folder, train.training_text(150_000, [], train.CANARIES, train.PROMPTS))
    return folder


@pytest.fixture(scope="session")
def model(model_dir: Path) -> NgramModel:
    """The same, loaded."""
    return NgramModel.load(model_dir)


@pytest.fixture
def start_engine(model_dir: Path, tmp_path: Path) -> Iterator[StartEngine]:
    """Start engines on free loopback ports; whatever is left of them is killed at the end."""
    engines: list[Engine] = []

    def start(*arguments: str, scale: str = "0.001") -> Engine:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        given = ["--model-path", str(model_dir), "--time-scale", scale, *arguments]
        engines.append(Engine(given, tmp_path / f"engine-{len(engines)}.log", port))
        return engines[-1]

    yield start
    for engine in engines:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(engine.process.pid, signal.SIGKILL)
        engine.process.wait()
