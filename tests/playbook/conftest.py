"""One lab of two hosts for all playbook tests of a run, with a production service on the first."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import FOUND_UNITS, HOSTS, PRODUCTION, Target, bring_up
from treeline_lab.lab import Lab


@pytest.fixture(scope="session")
def two_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """A lab with the engine on both hosts and a budget-8 service running, enabled, with followers."""
    lab = Lab(f"test-{os.getpid()}-playbook")
    lab.down()
    try:
        lab.up(HOSTS)
        folder = tmp_path_factory.mktemp("playbook")
        target = Target(
            lab, lab.write_inventory(folder / "hosts.yml", HOSTS), tuple(HOSTS), folder / "deploy"
        )
        target.run("deploy.yml", timeout=280)
        for host in HOSTS:
            for name, text in FOUND_UNITS.items():
                target.write(host, f"/etc/systemd/system/{name}", text)
            target.on(host, "systemctl", "daemon-reload")
            bring_up(target, host)
        yield target
    finally:
        lab.down()


@pytest.fixture
def target(two_hosts: Target, tmp_path: Path) -> Iterator[Target]:
    """Both hosts, a results folder of its own, and the proof that the found services are as before."""
    before = {host: two_hosts.found_state(host) for host in two_hosts.hosts}
    for host, state in before.items():
        assert state["states"][PRODUCTION] == "active", f"{host} is not in order before the test: {state}"
    yield Target(two_hosts.lab, two_hosts.inventory, two_hosts.hosts, tmp_path / "results")
    after = {host: two_hosts.found_state(host) for host in two_hosts.hosts}
    assert after == before


@pytest.fixture
def alpha(target: Target, tmp_path: Path) -> Target:
    """The first host alone."""
    inventory = target.lab.write_inventory(tmp_path / "one" / "hosts.yml", {"alpha": HOSTS["alpha"]})
    return Target(target.lab, inventory, ("alpha",), target.results)
