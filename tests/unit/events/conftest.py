"""Make `plays` importable, and run once the playbook in which everything goes wrong."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, list[dict[str, Any]]]:
    """The folder of the run, what it printed and its events; `junit.xml` is in the folder."""
    from plays import PLAYBOOK, lines, play

    folder = tmp_path_factory.mktemp("callback")
    done = play(folder, PLAYBOOK, TREELINE_JUNIT_FILE=str(folder / "junit.xml"))
    assert "Unexpected Exception" not in done.stdout + done.stderr, done.stdout + done.stderr
    assert "Callback dispatch" not in done.stderr, done.stderr
    return folder, done.stdout, lines(folder / "results" / "events.jsonl")
