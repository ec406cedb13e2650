"""One lab host with a production service for the tests of a run that disturb a sweep."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "playbook"))

from harness import FOUND_UNITS, bring_up
from labs import deployed
from ledger import state_folder
from rounds import POINTS, Bench

HOSTS = {"omega": "10.66.0.91"}


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A host with the engine, a budget-8 service with followers running, and a control sweep done on it."""
    folder = tmp_path_factory.mktemp("long")
    with deployed("long", HOSTS, folder) as target:
        for name, text in FOUND_UNITS.items():
            target.write("omega", f"/etc/systemd/system/{name}", text)
        target.on("omega", "systemctl", "daemon-reload")
        bring_up(target, "omega")
        points = folder / "points.csv"
        points.write_text(POINTS, encoding="utf-8")
        made = Bench(target, "omega", points)
        made.see_control(folder / "control")
        yield made


@pytest.fixture(scope="session")
def state() -> Path:
    """Where the harness notes what it has done, so that the next call goes on."""
    return state_folder()
