"""Preflight on real hosts: everything that speaks against a sweep, told at once, and nothing changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from found_host import HOLDER, REPOSITORY, STAND_IN, TRIAL, FoundHost
from found_scenes import ALL, running_engine, take
from treeline_lab import Lab

pytestmark = pytest.mark.lab


def test_preflight_reports_everything_at_once(host: FoundHost) -> None:
    host.service("engine.service", f"{STAND_IN} --port 30000 --running-requests 3")
    host.service("other.service", f"{STAND_IN} --port 31990 --api-key sesame")
    host.service("web.service", f"{STAND_IN} --host 127.0.0.2 --port 30000")
    host.service("keeper.service", "/usr/bin/sleep infinity", unit="Upholds=engine.service")
    host.reload()
    host.start("engine.service", "other.service", "web.service", "keeper.service")
    host.wait_answer(30000)
    host.wait(
        lambda: host.run("bash", "-c", "</dev/tcp/127.0.0.1/31990").returncode == 0, 10, "other listens"
    )
    host.wait(lambda: host.run("bash", "-c", "</dev/tcp/127.0.0.2/30000").returncode == 0, 10, "web listens")
    host.run("touch", "-d", "+10 seconds", "/etc/systemd/system/engine.service")
    before = host.picture(ALL)
    asked = {
        "found_units": ["engine.service"],
        "trial_unit": TRIAL,
        "production_port": 30000,
        "trial_port": 31990,
        "model_paths": ["/models/absent"],
        "trial_unit_text": "[Service]\nExecStart=/bin/engine --port 31990\n",
    }
    report = host.call("preflight", **asked)
    problems = "\n".join(report["problems"])
    for expected in (
        "production port 30000 is held by pid",
        "of web.service, which is none of treeline_found_units (engine.service)",
        "trial port 31990 is held by pid",
        "of other.service; set treeline_trial_port",
        "engine.service is held up by keeper.service (Upholds=)",
        "has 3 running and 0 queued requests; drain it at the router",
        "/etc/systemd/system/engine.service was changed after the running engine.service was started",
        "the model path /models/absent does not exist",
    ):
        assert expected in problems
    assert "sesame" not in json.dumps(report)
    assert "[Service] ExecStart: --running-requests 3" in report["facts"]["differences"]["only_found"]
    assert report["facts"]["services_down"] == ["engine.service"]
    assert report["facts"]["found"][0]["port"] == 30000
    assert host.picture(ALL) == before
    assert not host.exists("/var/lib/treeline")

    allowed = host.call("preflight", **{**asked, "interrupt_traffic": True})
    assert any("interrupted (interrupt_traffic=true)" in note for note in allowed["notes"])
    host.run("systemctl", "stop", "other.service", "web.service", "keeper.service")
    host.run("touch", "-d", "-1 hour", "/etc/systemd/system/engine.service")
    host.reload()
    clean = host.call("preflight", **{**asked, "interrupt_traffic": True, "model_paths": ["/opt"]})
    assert clean["problems"] == []


def test_what_would_only_fail_in_the_first_trial_is_told_before(host: FoundHost) -> None:
    host.service("engine.service", f"{STAND_IN} --port 30000", service="TimeoutStopSec=9min")
    host.service("web.service", f"{STAND_IN} --port 30001", service="TimeoutStopSec=infinity")
    host.service("stopped.service", f"{STAND_IN} --port 30002", service="TimeoutStopSec=infinity")
    host.reload()
    host.start("engine.service", "web.service")
    asked = {
        "found_units": ["engine.service", "web.service", "stopped.service"],
        "trial_unit": TRIAL,
        "production_port": 30000,
        "trial_port": 31990,
        "trial_unit_text": "[Service]\nUser=sglang\nGroup=nogroup\nExecStart=/bin/engine\n",
    }
    problems = host.call("preflight", **asked, lease_s=600)["problems"]
    assert len(problems) == 3
    slow, endless, account = problems
    assert slow.startswith("engine.service may take 9min to stop (its TimeoutStopSec)")
    assert "raise treeline_lease_s" in slow
    assert endless.startswith("web.service may take for ever to stop")
    assert "as user sglang, which does not exist on this host; run deploy.yml" in account
    host.run("systemctl", "stop", "web.service")
    longer = host.call("preflight", **{**asked, "trial_unit_text": ""}, lease_s=601)
    assert longer["problems"] == []


def test_preflight_after_an_interrupted_sweep(host: FoundHost) -> None:
    running_engine(host)
    take(host, ["engine.service"])
    host.start_trial(["engine.service"])
    host.wait_answer(31990)
    asked = {"trial_unit": TRIAL, "production_port": 30000, "trial_port": 31990}
    report = host.call(
        "preflight", found_units=["engine.service"], controller={"host": "controller"}, **asked
    )
    assert report["problems"] == []
    assert report["facts"]["snapshot_present"] == HOLDER["sweep_id"]
    assert report["facts"]["services_down"] == ["engine.service"]
    held = report["facts"]["lease_holder"]
    assert (held["pid"], 500 < held["seconds_left"] <= 600) == (HOLDER["pid"], True)

    other = host.call("preflight", found_units=["web.service"], controller={"host": "elsewhere"}, **asked)
    problems = "\n".join(other["problems"])
    assert "which covers engine.service with trial unit trial.service" in problems
    assert "leased to sweep 20260101T000000Z-1a2b3c4d of controller controller (pid 4711)" in problems
    # A trial that nobody accounts for is in the way.
    host.run("rm", "/var/lib/treeline/found.json")
    alone = "\n".join(host.call("preflight", found_units=["engine.service"], **asked)["problems"])
    assert "trial unit trial.service is active, but this host has no snapshot" in alone
    assert "trial port 31990 is held by pid" in alone


def test_a_host_without_systemd_is_told(lab: Lab) -> None:
    asked = {"found_units": ["a.service"], "trial_unit": TRIAL, "production_port": 1, "trial_port": 2}
    driver = [sys.executable, str(REPOSITORY / "tests/lab/target_driver.py"), "preflight", json.dumps(asked)]
    done = subprocess.run(
        ["unshare", "--pid", "--fork", "--mount-proc", *driver],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "plugins/module_utils")},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    problems = json.loads(done.stdout)["result"]["problems"]
    assert len(problems) == 1
    assert problems[0].startswith("systemd does not run this host (process 1 is python")


def test_a_socket_of_the_found_service_is_no_stranger(host: FoundHost) -> None:
    host.unit("web.socket", "[Socket]\nListenStream=127.0.0.1:30001\n")
    host.service("web.service", f"{STAND_IN} --port 30001")
    host.reload()
    host.start("web.socket")
    asked = {"trial_unit": TRIAL, "production_port": 30001, "trial_port": 31990}
    assert host.call("preflight", found_units=["web.service"], **asked)["problems"] == []
    strange = host.call("preflight", found_units=["engine.service"], **asked)["problems"]
    assert len(strange) == 1
    assert "held by systemd (pid 1) for web.socket" in strange[0]
