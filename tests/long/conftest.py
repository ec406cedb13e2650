"""One lab host with a production service for all long tests of a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "playbook"))

from harness import FOUND_UNITS, Target, bring_up
from ledger import state_folder
from rounds import POINTS, Bench
from treeline_lab.lab import Lab

HOSTS = {"omega": "10.66.0.91"}


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A host with the engine, a budget-8 service with followers running, and a control sweep done on it."""
    lab = Lab(f"test-{os.getpid()}-long")
    lab.down()
    try:
        lab.up(HOSTS)
        folder = tmp_path_factory.mktemp("long")
        inventory = lab.write_inventory(folder / "hosts.yml", HOSTS)
        target = Target(lab, inventory, tuple(HOSTS), folder / "deploy")
        target.run("deploy.yml", timeout=600)
        for name, text in FOUND_UNITS.items():
            target.write("omega", f"/etc/systemd/system/{name}", text)
        target.on("omega", "systemctl", "daemon-reload")
        bring_up(target, "omega")
        points = folder / "points.csv"
        points.write_text(POINTS, encoding="utf-8")
        made = Bench(target, "omega", points)
        made.see_control(folder / "control")
        yield made
    finally:
        lab.down()


@pytest.fixture(scope="session")
def state() -> Path:
    """Where the harness notes what it has done, so that the next call goes on."""
    return state_folder()
