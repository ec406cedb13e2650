"""What goes wrong at night: each fault is recorded for what it is, and the service runs again afterwards.

The fixtures compare the found services before and after each test.
"""

from __future__ import annotations

import os
import signal
import subprocess

from harness import ENGINE, FRONT, PRODUCTION, QUICK, SOCKET, TRIAL, Target, bring_up, eventually


def engine(profile: str, **flags: object) -> dict[str, object]:
    """Extra vars that give the trials (not the found service) another fault profile."""
    return {"sglang_ddtree_extra_args": {**ENGINE, "fault-profile": profile, **flags}}


def test_never_ready_ends_at_the_bound(alpha: Target) -> None:
    alpha.run("sweep.yml", budget="8", maxreq="16", ready_timeout=8, **QUICK, **engine("hang-in-capture"))
    trials = alpha.finished()
    assert [(t["status"], t["class"], t["step"]) for t in trials] == [("timeout", None, "ready")] * 2
    assert [t["purpose"] for t in trials] == ["explore", "retry"]
    assert all(8 <= t["times"]["waited_s"] < 12 for t in trials)


def test_engine_killed_in_capture_is_noticed_at_once(alpha: Target) -> None:
    run = alpha.start("sweep.yml", budget="8", maxreq="16", **QUICK, **engine("slow-capture"))
    try:
        killed = set()
        for _ in range(2):  # the cause is unknown, so the planner asks once more
            life = eventually("another life captures", lambda: capturing(alpha, killed))
            alpha.on("alpha", "kill", "-KILL", life["MainPID"])
            killed.add(life["InvocationID"])
        assert run.wait(timeout=120) == 0
    finally:
        stop(run)
    trials = alpha.finished()
    assert {(t["status"], t["step"], t["phase"]) for t in trials} == {("crash", "ready", "graph_capture")}
    for trial in trials:
        assert 0 <= trial["times"]["noticed_s"] <= 2.0, trial["times"]


def test_a_failed_restart_does_not_make_the_next_trial_measure_an_old_process(alpha: Target) -> None:
    drop_in = f"/run/systemd/system/{TRIAL}.d/first-start-fails.conf"
    script = "test -e /run/second-start || { touch /run/second-start; exit 1; }"
    alpha.write("alpha", drop_in, f"[Service]\nExecStartPre=+/bin/sh -c '{script}'\n")
    try:
        alpha.run("sweep.yml", budget="8", maxreq="16,32", **QUICK)
    finally:
        alpha.on("alpha", "rm", "-rf", os.path.dirname(drop_in), "/run/second-start")  # noqa: PTH120
        alpha.on("alpha", "systemctl", "daemon-reload")
    trials = alpha.finished()
    assert trials[0]["step"] == "restart"
    assert trials[0]["status"] in ("crash", "void")
    later = trials[1:]
    assert later
    assert all(t["status"] == "ok" for t in later)
    assert len({t["invocation_id"] for t in later}) == len(later)
    for trial in later:
        assert trial["proof"]["trial_id_in_env"] == trial["trial_id"]
        assert trial["served"]["max_running_requests"] == trial["key"]["maxreq"]


def test_a_host_that_goes_away_in_mid_trial_is_void_and_the_rest_goes_on(target: Target) -> None:
    run = target.start("sweep.yml", budget="4,6,8", maxreq="8", treeline_reconnect_s=60, **QUICK)
    try:
        eventually("alpha has started a trial", lambda: [t for t in target.started() if t["host"] == "alpha"])
        eventually(
            "its engine runs", lambda: target.show("alpha", TRIAL, "ActiveState")["ActiveState"] == "active"
        )
        target.lab.link("alpha", up=False)
        eventually(
            "the trial is void", lambda: [t for t in target.finished() if t["status"] == "void"], timeout=120
        )
        target.lab.link("alpha", up=True)
        assert run.wait(timeout=240) == 0
    finally:
        target.lab.link("alpha", up=True)
        stop(run)
    trials = target.finished()
    assert [t["host"] for t in trials if t["status"] == "void"] == ["alpha"]
    assert {t["key"]["budget"] for t in trials if t["status"] == "ok"} == {4, 6, 8}


def test_a_host_that_stays_away_makes_the_exit_code_say_so(target: Target) -> None:
    run = target.start(
        "sweep.yml", budget="4,6,8", maxreq="8", treeline_reconnect_s=5, treeline_lease_s=20, **QUICK
    )
    try:
        eventually("alpha has started a trial", lambda: [t for t in target.started() if t["host"] == "alpha"])
        eventually(
            "its engine runs", lambda: target.show("alpha", TRIAL, "ActiveState")["ActiveState"] == "active"
        )
        target.lab.link("alpha", up=False)
        assert run.wait(timeout=240) != 0
    finally:
        target.lab.link("alpha", up=True)
        stop(run)
    assert {t["host"] for t in target.finished() if t["status"] == "ok"} == {"beta"}
    log = (target.results / "sweep.yml.log").read_text(encoding="utf-8")
    assert "alpha" in log.split("PLAY [Report and close]")[-1]
    # Nobody ran restore.yml: the lease on the target brought the service back.
    eventually(
        "alpha serves again", lambda: (target.served("alpha") or {}).get("speculative_ddtree_budget") == 8
    )
    eventually("and is tidy", lambda: not target.found_state("alpha")["snapshot"])


def test_a_killed_controller_leaves_the_lease_to_restore(alpha: Target) -> None:
    run = alpha.start(
        "sweep.yml", budget="8", maxreq="16", treeline_lease_s=15, **QUICK, **engine("slow-capture")
    )
    try:
        eventually("a trial has started", alpha.started)
        eventually(
            "its engine runs", lambda: alpha.show("alpha", TRIAL, "ActiveState")["ActiveState"] == "active"
        )
        assert alpha.show("alpha", PRODUCTION, "ActiveState")["ActiveState"] == "inactive"
    finally:
        stop(run)
    eventually("the found service serves again", lambda: alpha.served("alpha"), timeout=120)
    eventually("and is tidy", lambda: not alpha.found_state("alpha")["snapshot"])
    # The same command later goes on with the interrupted item and keeps both.
    alpha.run("sweep.yml", budget="8", maxreq="16", **QUICK, **engine("none"))
    assert len(alpha.started()) == 2
    assert [t["status"] for t in alpha.finished()] == ["ok"]
    assert len(list(alpha.results.glob("*/trials.jsonl"))) == 1


def test_a_reboot_in_mid_trial(alpha: Target) -> None:
    slow = {"sglang_ddtree_extra_args": {**ENGINE, "time-scale": 0.03}}
    run = alpha.start("sweep.yml", budget="8", maxreq="16", treeline_reconnect_s=60, **QUICK, **slow)
    try:
        eventually("a trial has started", alpha.started)
        eventually(
            "its engine runs", lambda: alpha.show("alpha", TRIAL, "ActiveState")["ActiveState"] == "active"
        )
        alpha.lab.reboot("alpha")
        assert run.wait(timeout=240) == 0
    finally:
        stop(run)
    assert [trial["status"] for trial in alpha.finished()] == ["void", "ok"]
    eventually("the found service serves", lambda: alpha.served("alpha"))
    for unit in (FRONT, SOCKET):
        assert alpha.show("alpha", unit, "ActiveState")["ActiveState"] == "active"


def test_with_no_service_at_all(alpha: Target) -> None:
    alpha.on("alpha", "systemctl", "stop", FRONT, SOCKET, PRODUCTION)
    before = alpha.found_state("alpha")
    try:
        alpha.run("sweep.yml", budget="8", maxreq="16", **QUICK)
        assert alpha.found_state("alpha") == before
        assert alpha.finished()[0]["status"] == "ok"
    finally:
        bring_up(alpha, "alpha")


def test_a_foreign_listener_is_named_before_anything_is_changed(alpha: Target) -> None:
    alpha.on(
        "alpha",
        "systemd-run",
        "--unit=squatter",
        "/usr/bin/python3",
        "-m",
        "http.server",
        "31990",
        "--bind",
        "127.0.0.1",
    )
    try:
        eventually(
            "the squatter listens",
            lambda: alpha.on("alpha", "curl", "-s", "http://127.0.0.1:31990/", check=False),
        )
        output = alpha.run("sweep.yml", expect=2, budget="8", **QUICK)
    finally:
        alpha.on("alpha", "systemctl", "stop", "squatter")
    for text in ("31990", "squatter", "http.server", "treeline_trial_port"):
        assert text in output
    assert not alpha.started()


def capturing(target: Target, killed: set[str]) -> dict[str, str] | None:
    """The trial's life on alpha that has begun to capture, unless it is one of those already killed."""
    life = target.show("alpha", TRIAL, "MainPID", "InvocationID")
    invocation = life.get("InvocationID")
    if not invocation or invocation in killed or life["MainPID"] == "0":
        return None
    log = target.on(
        "alpha", "journalctl", "-q", "-o", "cat", f"_SYSTEMD_INVOCATION_ID={invocation}", check=False
    )
    return life if "Capture target verify" in log else None


def stop(run: subprocess.Popen[str]) -> None:
    """Kill a playbook with everything it started; harmless when it has ended."""
    try:
        os.killpg(run.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    run.wait(timeout=30)
