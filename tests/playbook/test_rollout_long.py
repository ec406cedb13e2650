"""Rollouts where things go wrong: killed controllers, lost networks, reboots, slow hosts, a router down.

Eight lab hosts in two hardware classes behind a real SGLang router; the usual waves.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet import LONG, Fleet, boot
from harness import eventually
from treeline.keys import RestartKey
from treeline_lab.router import UNIT

CLASSES = {"small": ("a1", "a2", "a3", "a4"), "large": ("b1", "b2", "b3", "b4")}
GOOD = RestartKey(budget=6, topk=4, maxreq=16, block_size=8, graphs=True)
BAD_ON_A2 = RestartKey(budget=16, topk=8, maxreq=64, block_size=8, graphs=True)
SPECIAL = {"a2": {"treeline_lab_fault_profile": "b300-kimi-k26"}}
WANTED = {"config": "best", "objective": "throughput@4"}
# Waves: b1; a1; b2; a2; b3, b4; a3, a4.

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    name = f"test-{os.getpid()}-rollouts"
    one = boot(name, CLASSES, "10.66.0.5", tmp_path_factory.mktemp("fleet"), SPECIAL, decode_scale=8)
    try:
        yield one
    finally:
        one.lab.down()


@pytest.fixture
def fleet(booted: Fleet, tmp_path: Path) -> Iterator[Fleet]:
    """Every host on the inventory's configuration, whatever the test before left."""
    booted.run("deploy.yml", timeout=LONG, treeline_deploy_over_rollout=True)
    one = booted.with_results(tmp_path / "results")
    one.register_all()
    yield one
    for host in one.hosts:
        one.lab.link(host, True)


def well(fleet: Fleet) -> None:
    """Nothing is drained or unknown, by health.yml's word."""
    said = fleet.run("health.yml", timeout=LONG)
    assert f"{len(fleet.hosts)} of {len(fleet.hosts)} hosts are well" in said
    assert fleet.workers() == dict.fromkeys(fleet.hosts, True)


def test_twenty_requests_a_second_do_not_notice_a_rollout(fleet: Fleet) -> None:
    fleet.record(1, GOOD)
    clients = fleet.clients(rate=20)
    fleet.run("rollout.yml", timeout=LONG, **WANTED)
    outcome = clients.stop()
    print(outcome)
    assert (outcome["failed"], outcome["failures"]) == (0, [])
    assert outcome["shortest_s"] >= 2
    assert outcome["rate"] > 19
    well(fleet)


def test_a_host_on_which_it_is_bad_stops_the_rollout_at_its_wave(fleet: Fleet) -> None:
    fleet.record(1, BAD_ON_A2)
    clients = fleet.clients(rate=20)
    fleet.run("rollout.yml", expect=2, timeout=LONG, **WANTED)
    outcome = clients.stop()
    print(outcome)
    assert (outcome["failed"], outcome["failures"]) == (0, [])
    kept = dict.fromkeys(("b1", "a1", "b2"), "deployed")
    assert fleet.states() == {**kept, "a2": "rolled_back"}
    assert {host: fleet.budget(host) for host in fleet.hosts} == {
        host: 16 if host in kept else 8 for host in fleet.hosts
    }
    well(fleet)


def test_a_canary_that_is_clearly_slower_than_the_record_goes_back(fleet: Fleet) -> None:
    fleet.record(1, GOOD, tok_s=5000.0)
    said = fleet.run("rollout.yml", expect=2, timeout=LONG, **WANTED)
    assert "clearly slower than recorded" in " ".join(said.split())
    assert fleet.states() == {"b1": "rolled_back"}
    assert {fleet.budget(host) for host in fleet.hosts} == {8}
    well(fleet)


def test_a_check_run_shows_units_and_changes_nothing(fleet: Fleet) -> None:
    fleet.record(1, GOOD)
    lives = {host: fleet.life(host) for host in fleet.hosts}
    said = fleet.run("rollout.yml", timeout=LONG, flags=["--check", "--diff"], **WANTED)
    # The unit is one of the host's files; its diff is printed once for each host.
    assert len(re.findall(r"^\+ExecStart=.*-budget 6( |$)", said, re.MULTILINE)) >= len(fleet.hosts)
    assert {host: fleet.life(host) for host in fleet.hosts} == lives
    assert fleet.rollouts() == []
    assert not list(fleet.results.glob("rollouts/*"))


def test_a_killed_controller_leaves_nothing_that_a_second_run_does_not_mend(fleet: Fleet) -> None:
    fleet.record(1, GOOD)
    running = fleet.start("rollout.yml", **WANTED)
    eventually("b1 is drained", lambda: "b1" not in fleet.workers(), timeout=LONG)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    fleet.run("rollout.yml", timeout=LONG, **WANTED)
    (record,) = fleet.rollouts()
    assert [run["outcome"] for run in record["runs"]] == [None, "complete"]
    assert {fleet.budget(host) for host in fleet.hosts} == {6}
    well(fleet)


def test_a_host_that_loses_its_network_is_said_to_be_broken_until_it_is_back(fleet: Fleet) -> None:
    fleet.record(1, GOOD)
    running = fleet.start("rollout.yml", treeline_reconnect_s=10, waves="2", **WANTED)
    eventually("a1 is drained", lambda: "a1" not in fleet.workers(), timeout=LONG)
    fleet.lab.link("a1", False)
    assert running.wait(LONG) == 2
    # Its neighbour in the wave goes back, and is not left drained.
    assert fleet.states() == dict.fromkeys(("b1", "b2"), "deployed") | {"a1": "broken", "a2": "rolled_back"}
    assert fleet.budget("a2") == 8
    assert fleet.workers()["a2"]
    (lost,) = (line for line in fleet.lines_of_newest() if line["host"] == "a1")
    assert "NOT put back: a1 does not answer (timed out" in lost["reason"]
    said = fleet.run("health.yml", expect=2, timeout=LONG)
    assert "a1: NOT WELL: unreachable" in said
    fleet.lab.link("a1", True)
    fleet.run("rollout.yml", timeout=LONG, waves="2", **WANTED)
    assert fleet.states() == dict.fromkeys(fleet.hosts, "deployed") | dict.fromkeys(("b1", "b2"), "unchanged")
    well(fleet)


def test_a_host_that_reboots_in_its_turn_is_put_back_or_finished_by_the_next_run(fleet: Fleet) -> None:
    fleet.record(1, GOOD)
    running = fleet.start("rollout.yml", **WANTED)
    eventually("b1 is drained", lambda: "b1" not in fleet.workers(), timeout=LONG)
    fleet.lab.reboot("b1")
    assert running.wait(LONG) in (0, 2)
    assert fleet.states()["b1"] in ("rolled_back", "deployed")
    fleet.run("rollout.yml", timeout=LONG, **WANTED)
    assert {fleet.budget(host) for host in fleet.hosts} == {6}
    well(fleet)


def test_without_its_router_a_rollout_changes_nothing_and_goes_on_when_it_is_back(fleet: Fleet) -> None:
    fleet.record(1, GOOD)
    lives = {host: fleet.life(host) for host in fleet.hosts}
    fleet.on("router", "systemctl", "stop", UNIT)
    try:
        said = fleet.run("rollout.yml", expect=2, timeout=LONG, **WANTED)
    finally:
        fleet.on("router", "systemctl", "start", UNIT)
    assert "the router does not tell its workers" in said
    assert {host: fleet.life(host) for host in fleet.hosts} == lives
    # It has forgotten its workers; a rollout puts them on its list again.
    eventually("the router answers", lambda: fleet.router_answers())
    said = " ".join(fleet.run("health.yml", expect=2, timeout=LONG).split())
    for host in fleet.hosts:
        assert f"{host}: NOT WELL: drained: the router does not list it" in said
    fleet.run("rollout.yml", timeout=LONG, sglang_router_worker_allow_last=True, **WANTED)
    well(fleet)


def test_drift_is_told_rollback_goes_back_and_deploy_does_not_undo_a_rollout_by_accident(
    fleet: Fleet,
) -> None:
    fleet.record(1, GOOD)
    fleet.run("rollout.yml", timeout=LONG, **WANTED)
    said = " ".join(fleet.run("deploy.yml", expect=2, timeout=LONG).split())
    assert "budget 6 (the inventory says 8)" in said
    assert {fleet.budget(host) for host in fleet.hosts} == {6}

    fleet.run("rollback.yml", timeout=LONG, wave=1)
    assert {host for host in fleet.hosts if fleet.budget(host) == 8} == {"b1"}
    well(fleet)

    unit = "/etc/systemd/system/sglang-ddtree.service"
    fleet.write("a3", unit, fleet.on("a3", "cat", unit).replace("budget 6", "budget 4"))
    fleet.on("a3", "systemctl", "daemon-reload")
    fleet.on("a3", "systemctl", "restart", "sglang-ddtree")
    eventually("a3 serves", lambda: fleet.budget("a3") == 4)
    said = fleet.run("health.yml", expect=2, timeout=LONG)
    assert "a3: NOT WELL: drift: speculative_ddtree_budget" in said
    assert f"{len(fleet.hosts) - 1} of {len(fleet.hosts)} hosts are well" in said
    fleet.run("rollback.yml", timeout=LONG)
    assert {fleet.budget(host) for host in fleet.hosts} == {8}
    well(fleet)
