"""Rollouts on four lab hosts in two hardware classes, behind a real SGLang router with clients.

The rows that are rolled out are written into a results folder with the provenance that preflight reports,
instead of swept: what a sweep writes is tested elsewhere, and the speeds of the record can be chosen.
Waves of two keep the test short; tests/playbook/test_rollout_long.py has the usual ones on eight hosts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet import LONG, Fleet, boot
from treeline.keys import RestartKey

CLASSES = {"small": ("a1", "a2"), "large": ("b1", "b2")}
GOOD = RestartKey(budget=6, topk=4, maxreq=16, block_size=8, graphs=True)
# The field's crash in graph capture: a2 has its fault profile, the others run it well.
BAD_ON_A2 = RestartKey(budget=16, topk=8, maxreq=64, block_size=8, graphs=True)
SPECIAL = {"a2": {"treeline_lab_fault_profile": "b300-kimi-k26"}}
WANTED = {"config": "best", "objective": "throughput@4", "waves": "2"}

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    name = f"test-{os.getpid()}-rollout"
    one = boot(name, CLASSES, "10.66.0.4", tmp_path_factory.mktemp("fleet"), SPECIAL, decode_scale=2)
    try:
        yield one
    finally:
        one.lab.down()


@pytest.fixture
def fleet(booted: Fleet, tmp_path: Path) -> Fleet:
    return booted.with_results(tmp_path / "results")


def test_a_row_measured_with_something_else_is_refused_before_any_change(fleet: Fleet) -> None:
    fleet.record(1, GOOD, driver="999.1", engine_build="another build")
    before = {host: fleet.life(host) for host in fleet.hosts}
    said = " ".join(fleet.run("rollout.yml", expect=2, timeout=LONG, **WANTED).split())
    assert "driver is unknown, measured with 999.1" in said
    assert "engine build is treeline-reference-engine" in said
    assert "allow_mismatch=true" in said
    assert {host: fleet.life(host) for host in fleet.hosts} == before
    assert fleet.rollouts() == []


def test_a_limit_gives_a_rollout_of_its_own(fleet: Fleet) -> None:
    fleet.record(1, GOOD)
    flags = ["--check", "--diff", "--limit", "localhost,large"]
    said = fleet.run("rollout.yml", timeout=LONG, flags=flags, **WANTED)
    (wave,) = [line for line in said.splitlines() if line.startswith("wave ")]
    assert wave.startswith("wave 1 (canary), ")
    assert wave.endswith(": b1, b2")
    assert len(re.findall(r"^\+ExecStart=.*-budget 6( |$)", said, re.MULTILINE)) == 2
    assert not re.search(r"\ba[12]\b", said)


@pytest.mark.long
def test_a_good_rollout_loses_no_request_and_a_second_one_restarts_nothing(fleet: Fleet) -> None:
    fleet.record(1, GOOD)
    clients = fleet.clients(rate=2)
    said = fleet.run("rollout.yml", timeout=LONG, **WANTED)
    outcome = clients.stop()
    print(outcome)
    assert (outcome["failed"], outcome["failures"]) == (0, [])
    assert outcome["shortest_s"] >= 2
    assert "the best of 1 configurations" in said
    assert {host: fleet.budget(host) for host in fleet.hosts} == dict.fromkeys(fleet.hosts, 6)
    assert fleet.states() == dict.fromkeys(fleet.hosts, "deployed")
    assert fleet.workers() == dict.fromkeys(fleet.hosts, True)

    lives = {host: fleet.life(host) for host in fleet.hosts}
    said = fleet.run("rollout.yml", timeout=LONG, **WANTED)
    assert {host: fleet.life(host) for host in fleet.hosts} == lives
    assert fleet.states() == dict.fromkeys(fleet.hosts, "unchanged")
    recap = [line for line in said.splitlines() if line.split(":")[0].strip() in fleet.hosts]
    assert len([line for line in recap if "changed=0" in line]) == len(fleet.hosts)


def test_what_is_bad_on_one_host_goes_back_with_its_wave_and_clients_do_not_notice(fleet: Fleet) -> None:
    fleet.record(1, BAD_ON_A2)
    before = {host: fleet.on(host, "systemctl", "cat", "sglang-ddtree") for host in fleet.hosts}
    served = {host: fleet.budget(host) for host in fleet.hosts}
    clients = fleet.clients(rate=2)
    said = fleet.run("rollout.yml", expect=2, timeout=LONG, **WANTED)
    outcome = clients.stop()
    print(outcome)
    assert (outcome["failed"], outcome["failures"]) == (0, [])
    assert fleet.states() == {"b1": "deployed", "b2": "deployed", "a1": "rolled_back", "a2": "rolled_back"}
    assert {host: fleet.budget(host) for host in ("b1", "b2")} == {"b1": 16, "b2": 16}
    for host in ("a1", "a2"):
        assert fleet.budget(host) == served[host]
        assert fleet.on(host, "systemctl", "cat", "sglang-ddtree") == before[host]
        assert fleet.on(host, "systemctl", "is-enabled", "sglang-ddtree").strip() == "enabled"
    assert fleet.workers() == dict.fromkeys(fleet.hosts, True)
    newest = fleet.rollouts()[-1]
    assert (newest["outcome"], newest["runs"][-1]["outcome"]) == ("stopped", "stopped")
    assert "not a1, a2" in newest["runs"][-1]["reason"]
    assert "does not keep the new configuration" in said
