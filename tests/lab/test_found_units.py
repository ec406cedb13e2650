"""The found services come back as they were, whatever happens: real systemd, stand-in services."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from found_host import HOLDER, REPOSITORY, STAND_IN, TRIAL, FoundHost, TargetError
from found_scenes import (
    ADDRESS,
    ALL,
    FOUND,
    LEASE,
    assert_no_trace,
    build_everything,
    give_back,
    running_engine,
    take,
    write_engine,
)

pytestmark = pytest.mark.lab


def test_every_unit_is_as_found_after_a_sweep(host: FoundHost) -> None:
    build_everything(host)
    before = host.picture(ALL, ("/etc/engine.env",))
    assert before["units"]["slow.service"]["state"] == "activating"
    assert before["units"]["broken.service"]["state"] == "failed"

    taken = take(host, FOUND)
    assert set(taken["stopped"]) == {
        *("web.socket", "tick.timer", "router.service", "gateway.service", "helper.service"),
        "stack.target",
    }
    assert "sesame" not in json.dumps(taken)
    found = host.run("cat", "/var/lib/treeline/found.json").stdout
    assert "sesame" not in found
    assert host.run("stat", "-c", "%a", "/var/lib/treeline/found.json").stdout.strip() == "600"

    # Several service lives, as in a sweep; the trial does not listen to SIGTERM.
    for _ in range(3):
        host.start_trial(FOUND, "/usr/bin/python3 -c 'import signal; signal.signal(15, 1); signal.pause()'")
    for name in ("engine.service", "web.service", "slow.service"):
        assert host.state(name) in ("inactive", "failed"), name
    assert take(host, FOUND)["resumed"]
    assert host.run("cat", "/var/lib/treeline/found.json").stdout == found

    # Two restores at once, as when a lease fires during the play's own.
    first, second = (
        host.popen(*host.driver("give_back", {"trial_unit": TRIAL, "lease": LEASE})) for _ in "12"
    )
    outcomes = [json.loads(each.communicate(timeout=60)[0])["result"] for each in (first, second)]
    assert [outcome["restored"] for outcome in outcomes] == [True, True], outcomes
    assert sorted(outcome["changed"] for outcome in outcomes) == [False, True], outcomes
    proven = {entry["unit"]: entry for outcome in outcomes for entry in outcome["proven"]}
    assert proven["engine.service"]["served"] == "equal"
    assert proven["web.service"]["argv"] == "equal"

    assert host.picture(ALL, ("/etc/engine.env",)) == before
    assert_no_trace(host)
    assert give_back(host)["changed"] is False


def test_lease_restores_by_itself_and_keeps_a_late_controller_out(host: FoundHost) -> None:
    running_engine(host)
    short = {"seconds": 3, "holder": HOLDER}
    take(host, ["engine.service"], short)
    keeper = host.driver("keep", {"lease": short, "for_s": 60})
    host.run("systemd-run", "--unit=lease-keeper", "--collect", *keeper)
    host.start_trial(["engine.service"])
    # While somebody renews it, it does not fire.
    time.sleep(5)
    assert host.state(TRIAL) == "active"
    assert host.call("begin", trial_unit=TRIAL, lease=short)["awake_again"] == []

    host.run("systemctl", "kill", "--signal=KILL", "lease-keeper")
    took = host.wait(lambda: host.state("engine.service") == "active", 20, "the lease restored the engine")
    assert took < 12
    gone = lambda: host.property("treeline-lease.timer", "LoadState") == "not-found"  # noqa: E731
    host.wait(gone, 15, "the restore proved itself and ended the lease")
    last = json.loads(host.run("cat", "/var/lib/treeline/last-restore.json").stdout)
    assert (last["by"], last["restored"], last["fenced"]) == ("lease", True, True)

    for late in ("begin", "rearm"):
        with pytest.raises(
            TargetError, match=r"the lease expired at .* the found service was restored"
        ) as caught:
            host.call(late, trial_unit=TRIAL, lease=short)
        assert caught.value.kind == "LeaseLostError"
    # The controller wakes up and goes on with its next task: render and restart.
    with pytest.raises(TargetError, match="masked"):
        host.start_trial(["engine.service"])
    assert host.state("engine.service") == "active"

    assert take(host, ["engine.service"])["resumed"] is False
    host.start_trial(["engine.service"])
    assert host.state(TRIAL) == "active"
    assert give_back(host)["restored"]
    assert_no_trace(host)


def test_reboot_in_the_middle(host: FoundHost) -> None:
    running_engine(host, install="WantedBy=multi-user.target")
    host.run("systemctl", "enable", "engine.service")
    host.service("other.service", f"{STAND_IN} --port 30002")
    host.reload()
    host.start("other.service")
    host.wait_answer(30002)
    found = ["engine.service", "other.service"]
    take(host, found)
    host.start_trial(found)
    host.lab.reboot(host.name)

    assert host.state("engine.service") == "active"
    assert host.state("other.service") == "inactive"
    with pytest.raises(TargetError, match="no lease is armed on this host"):
        host.call("begin", trial_unit=TRIAL, lease=LEASE)
    outcome = give_back(host)
    assert outcome["restored"], outcome
    assert {entry["unit"] for entry in outcome["proven"]} == set(found)
    assert host.state("other.service") == "active"
    assert host.property("engine.service", "UnitFileState") == "enabled"
    assert_no_trace(host)


def test_what_cannot_be_proven_keeps_the_snapshot(host: FoundHost) -> None:
    running_engine(host)
    take(host, ["engine.service"])
    host.start_trial(["engine.service"])
    write_engine(host, budget=32)
    host.reload()
    outcome = host.call("restore", bounds={"differs": 1})
    assert not outcome["restored"]
    assert "--budget 32" in outcome["reason"]
    assert "changed since: /etc/systemd/system/engine.service" in outcome["reason"]
    assert "sesame" not in json.dumps(outcome)
    assert host.state("engine.service") == "active"
    assert host.exists("/var/lib/treeline/found.json")

    write_engine(host)
    host.reload()
    host.run("systemctl", "restart", "engine.service")
    assert give_back(host)["restored"]


def test_a_service_that_fails_at_first_is_started_again(host: FoundHost) -> None:
    count = "/var/lib/starts"
    (host.root / "var/lib/starts").unlink(missing_ok=True)
    host.service(
        "flaky.service",
        f"/bin/sh -c 'echo x >> {count}; test $(wc -l < {count}) != 2 && exec {STAND_IN} --port 30003'",
    )
    host.reload()
    host.start("flaky.service")
    host.wait_answer(30003)
    take(host, ["flaky.service"])
    host.start_trial(["flaky.service"])
    outcome = host.call("restore", bounds={"restart_pause": 0.5})
    assert outcome["restored"], outcome
    assert (host.root / "var/lib/starts").read_text().count("x") == 3


def test_a_service_that_came_up_without_its_socket_gets_it_back(host: FoundHost) -> None:
    host.unit("web.socket", "[Socket]\nListenStream=127.0.0.1:30001\n")
    host.service("web.service", f"{STAND_IN} --port 30001")
    host.reload()
    host.start("web.socket")
    host.wait_answer(30001)
    take(host, ["web.service"])
    host.start_trial(["web.service"])
    host.start("web.service")
    assert host.state(TRIAL) == "inactive"
    assert host.state("web.socket") == "inactive"
    assert give_back(host)["restored"]
    assert (host.state("web.socket"), host.state("web.service")) == ("active", "active")


def test_without_a_snapshot_no_trial_begins(host: FoundHost) -> None:
    with pytest.raises(TargetError, match="what runs on this host is not on record") as caught:
        host.call("begin", trial_unit=TRIAL)
    assert caught.value.kind == "BeginError"


def test_another_holder_and_other_units_are_refused(host: FoundHost) -> None:
    running_engine(host)
    take(host, ["engine.service"])
    stranger = {"seconds": 600, "holder": {**HOLDER, "host": "elsewhere", "sweep_id": "another"}}
    with pytest.raises(
        TargetError, match="leased to sweep 20260101T000000Z-1a2b3c4d of controller controller"
    ):
        take(host, ["engine.service"], stranger)
    with pytest.raises(TargetError, match="this host is now leased to"):
        host.call("rearm", lease=stranger)
    with pytest.raises(TargetError, match="still has the snapshot of sweep"):
        take(host, ["engine.service", "other.service"])
    with pytest.raises(TargetError, match="leased to sweep"):
        give_back(host, stranger)
    # A renewal that broke off between its two steps left the lease without a timer.
    host.run("systemctl", "stop", "treeline-lease.timer")
    program = [
        "env",
        "PYTHONPATH=/var/lib/treeline/lib",
        "python3",
        "-m",
        "treeline_target.restore",
        "--by",
        "lease",
    ]
    assert "renewed in the meantime" in host.run(*program).stdout
    assert host.property("treeline-lease.timer", "SubState") == "waiting"
    # Somebody else's restore fences our trial off; our next module is told.
    host.start_trial(["engine.service"])
    assert give_back(host, None)["fenced"]
    with pytest.raises(TargetError, match="no lease is armed"):
        host.call("begin", trial_unit=TRIAL, lease=LEASE)
    assert host.state("engine.service") == "active"


def test_the_modules_over_ssh(host: FoundHost, tmp_path: Path) -> None:
    running_engine(host)
    unit = {"trial_unit": TRIAL}
    ports = {"production_port": 30000, "trial_port": 31990}
    engine = {"found_units": ["engine"]}
    play = {
        "hosts": "sglang",
        "gather_facts": False,
        "tasks": [
            {"treeline_preflight": {**engine, **unit, **ports}},
            {"treeline_found": {"state": "snapshot", **engine, **unit, "lease": LEASE}},
            {"treeline_begin": {**engine, **unit, "trial_id": "t1", "lease": LEASE}, "register": "begun"},
            {"ansible.builtin.assert": {"that": ["begun.cursor is string", "begun.found[0].running"]}},
        ],
    }
    (tmp_path / "play.yml").write_text(json.dumps([play]))
    inventory = host.lab.write_inventory(tmp_path / "hosts.yml", {host.name: ADDRESS})
    done = subprocess.run(
        [Path(sys.executable).parent / "ansible-playbook", "-i", inventory, tmp_path / "play.yml"],
        env={
            **os.environ,
            "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
            "TREELINE_EVENTS_FILE": str(tmp_path / "events.jsonl"),
        },
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    host.start_trial(["engine.service"])
    # What the module left on the host came out of Ansible's archive; it is enough.
    program = ["env", "PYTHONPATH=/var/lib/treeline/lib", "python3", "-m", "treeline_target.restore"]
    restored = host.run(*program, "--holder", json.dumps(HOLDER))
    assert restored.returncode == 0, restored.stdout + restored.stderr
    assert json.loads(restored.stdout)["proven"][0]["served"] == "equal"
    assert host.state("engine.service") == "active"
    assert_no_trace(host)
