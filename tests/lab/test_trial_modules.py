"""Readiness, load and evidence against real systemd, a real journal and the reference engine."""

from __future__ import annotations

import gzip
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from treeline_lab import Lab
from trial_host import ADDRESS, ANSIBLE, FOUND, NAME, PORT, REPOSITORY, TRIAL, TrialHost, engine, result_of

pytestmark = pytest.mark.lab

SERVED = {"speculative_ddtree_budget": 8, "max_running_requests": 16, "disable_cuda_graph": False}


@pytest.fixture(scope="module")
def prepared(make_lab: Callable[[str], Lab], tmp_path_factory: pytest.TempPathFactory) -> TrialHost:
    """A host with the reference engine installed."""
    lab = make_lab("trial")
    lab.up({NAME: ADDRESS})
    folder = tmp_path_factory.mktemp("trial")
    inventory = lab.write_inventory(folder / "hosts.yml", {NAME: ADDRESS})
    role = ["-m", "ansible.builtin.include_role", "-a", "name=reference_engine"]
    done = subprocess.run(
        [ANSIBLE, "-i", inventory, "sglang", *role],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return TrialHost(lab, inventory, folder)


@pytest.fixture
def host(prepared: TrialHost) -> TrialHost:
    """The same, with nothing of an earlier test on it."""
    prepared.clean()
    return prepared


def wait_until(holds: Callable[[], object], what: str, timeout: float = 20.0) -> None:
    deadline = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.1)


def messages(folder: Path, name: str = "journal.jsonl.gz") -> list[str]:
    with gzip.open(folder / name, "rt", encoding="utf-8") as stream:
        return [str(json.loads(line)["MESSAGE"]) for line in stream]


def delay(result: dict[str, Any]) -> float:
    """Seconds from the unit's death to the module's result, both by the host's clock."""
    return float(result["returned_at_monotonic"] - result["died_at_monotonic"])


def test_two_identical_trials_are_proven_to_be_different_processes(host: TrialHost) -> None:
    proven = []
    for trial_id in ("sweep-0001", "sweep-0002"):
        marks = host.start(trial_id, engine())
        result = host.ready(marks, trial_id, expected_served=SERVED, expected_width=9)
        assert result["outcome"] == "ready", result["msg"]
        assert result["served"] == SERVED
        assert (result["captured_width"], result["mismatches"]) == (9, [])
        assert result["proof"]["trial_id_in_env"] == trial_id
        assert result["proof"]["listener_is_the_unit"] is True
        assert result["invocation_id"] == host.property("InvocationID")
        assert 0 < result["ready_s"] < 40
        phases = sorted(result["phases"], key=result["phases"].get)
        assert phases == ["dist_init", "weights", "kv_pool", "graph_capture", "http", "warmup", "serving"]
        proven.append((result["invocation_id"], result["main_pid"]))
    assert len(set(proven)) == 2
    assert proven[0][0] != proven[1][0]
    assert proven[0][1] != proven[1][1]


def test_a_service_that_serves_other_arguments_is_a_mismatch(host: TrialHost) -> None:
    marks = host.start("sweep-0003", engine())
    result = host.ready(
        marks, "sweep-0004", expected_served={**SERVED, "speculative_ddtree_budget": 16}, expected_width=17
    )
    assert (result["outcome"], result["failed"]) == ("mismatch", True)
    assert [(one["name"], one["expected"], one["served"]) for one in result["mismatches"]] == [
        ("speculative_ddtree_budget", 16, 8),
        ("captured verify width", 17, 9),
        ("TREELINE_TRIAL_ID", "sweep-0004", "sweep-0003"),
    ]
    assert "speculative_ddtree_budget: asked for 16, served 8" in result["msg"]


def test_an_eager_engine_needs_no_width(host: TrialHost) -> None:
    marks = host.start("sweep-0005", engine() + " --disable-cuda-graph")
    result = host.ready(marks, "sweep-0005", expected_served={"disable_cuda_graph": True})
    assert (result["outcome"], result["captured_width"]) == ("ready", None)


def test_a_death_while_graphs_are_captured_is_reported_at_once(host: TrialHost) -> None:
    # Budget 16 dies in graph capture on this profile; loading takes long enough for the module to be waiting.
    marks = host.start("sweep-0006", engine(16, "b300-kimi-k26", scale=0.03))
    result = host.ready(marks, "sweep-0006")
    assert (result["outcome"], result["failed"]) == ("died", True)
    assert (result["result"], result["exec_main_code"], result["exec_main_status"]) == ("signal", "killed", 9)
    assert 0 <= delay(result) <= 2
    assert "graph_capture" in result["phases"]
    assert "serving" not in result["phases"]
    assert result["msg"].endswith("its log had reached graph_capture")

    evidence, folder = host.evidence(marks, invocation_id=result["invocation_id"])
    assert evidence["alive"] is False
    assert (evidence["end"]["result"], evidence["end"]["exec_main_status"]) == ("signal", 9)
    assert evidence["end"]["inactive_enter_monotonic"] == pytest.approx(result["died_at_monotonic"])
    assert (evidence["preempted_by"], evidence["stopped_by_others"]) == (None, False)
    assert (evidence["lost_lines"], evidence["notes"]) == (0, [])
    lines = messages(folder)
    assert any("illegal memory access" in line for line in lines)
    assert any("Main process exited, code=killed, status=9/KILL" in line for line in lines)
    assert f"TREELINE_TRIAL_ID={'sweep-0006'}" in (folder / "unit.service").read_text()
    assert "Result=signal" in (folder / "show.txt").read_text()


def test_what_is_never_ready_ends_at_the_bound(host: TrialHost) -> None:
    marks = host.start("sweep-0007", "/usr/bin/sleep 300")
    began = time.monotonic()
    result = host.ready(marks, "sweep-0007", timeout_s=3)
    assert result["outcome"] == "timeout"
    assert "was not ready within 3 s" in result["msg"]
    assert "Connection refused" in result["msg"]
    assert time.monotonic() - began < 30
    assert host.property("ActiveState") == "active"


def test_a_restart_that_did_not_happen_is_nothing_started(host: TrialHost) -> None:
    host.start("sweep-0008", "/usr/bin/sleep 300")
    marks = host.marks()
    assert marks["previous_invocation_id"]
    result = host.ready(marks, "sweep-0009", timeout_s=20)
    assert result["outcome"] == "nothing_started"
    assert "InvocationID is unchanged" in result["msg"]

    evidence, folder = host.evidence(marks)
    assert (evidence["alive"], evidence["end"]["invocation_id"]) == (False, "")
    assert messages(folder) == []


def test_a_unit_that_was_never_started_is_nothing_started(host: TrialHost) -> None:
    result = host.ready(host.marks(), "sweep-0010", timeout_s=20)
    assert result["outcome"] == "nothing_started"
    assert "InvocationID is empty" in result["msg"]


def test_a_clean_exit_that_systemd_forgot_is_a_death(host: TrialHost) -> None:
    marks = host.start("sweep-0011", "/bin/sh -c 'echo that was all; sleep 0.3'")
    wait_until(lambda: host.property("InvocationID") == "", "systemd forgets the unit")
    result = host.ready(marks, "sweep-0011", timeout_s=20)
    assert result["outcome"] == "died"
    assert result["invocation_id"]
    assert result["died_at_monotonic"] is not None

    evidence, folder = host.evidence(marks)
    assert "that was all" in messages(folder)
    # From the very first line on: systemd's own, unless the engine's overtook it on the way to the journal.
    assert "Starting sglang-ddtree-trial.service - Trial..." in messages(folder)
    assert evidence["end"]["ours"] is False
    assert evidence["end"]["invocation_id"] == result["invocation_id"]
    # It was not ordered to stop: a clean exit of its own is the trial's doing.
    assert evidence["stopped_by_others"] is False


def test_an_older_engine_on_the_port_is_not_the_trial(host: TrialHost) -> None:
    host.write("/run/systemd/system/other.service", f"[Service]\nExecStart={engine()}\n")
    host.run("systemctl", "daemon-reload")
    host.run("systemctl", "start", "other.service")
    wait_until(lambda: host.run("curl", "-fsS", f"http://127.0.0.1:{PORT}/model_info"), "the other serves")
    marks = host.start("sweep-0012", "/usr/bin/sleep 300")
    result = host.ready(marks, "sweep-0012", expected_served=SERVED, expected_width=9)
    assert result["outcome"] == "mismatch"
    assert [one["name"] for one in result["mismatches"]] == ["answers come from"]
    assert "of other.service" in result["msg"]


def test_a_load_is_measured_and_its_evidence_is_whole(host: TrialHost) -> None:
    marks = host.start("sweep-0013", engine())
    ready = host.ready(marks, "sweep-0013", expected_served=SERVED)
    result = result_of(host.load_popen(ready["invocation_id"]))
    assert result["outcome"] == "done", result["msg"]
    assert result["engine"]["name"] == "reference"
    assert result["engine"]["simulated"] is True
    assert [point["concurrency"] for point in result["points"]] == [4, 1]
    for point in result["points"]:
        assert (point["failed"], point["requests"], point["complete"]) == (0, 8, True)
        assert point["completion_tokens"] == 8 * 48
        assert point["al"] == pytest.approx(point["completion_tokens"] / point["verify_calls"])
        assert point["al"] > 2
        assert point["output_tok_s"] > 0
        assert point["prefix_cache_share"] < 0.01
        assert point["garble"]["flagged"] == 0
    assert 1 <= result["points"][0]["server_peak_running"] <= 4
    assert {(one["phase"], one["ok"]) for one in result["canaries"]} == {("single", True), ("busiest", True)}

    host.write(
        "/var/log/stand-in.log",
        f"{host.run('date', '--iso-8601=ns')} NVRM: Xid (PCI:0000:70:00): 13, Graphics Exception\n",
    )
    evidence, folder = host.evidence(
        marks,
        invocation_id=ready["invocation_id"],
        kernel_log="/var/log/stand-in.log",
        server_info={**ready["server_info"], "api_key": "s3cret"},
    )
    assert evidence["alive"] is True
    assert (evidence["preempted_by"], evidence["stopped_by_others"], evidence["lost_lines"]) == (
        None,
        False,
        0,
    )
    assert evidence["end"]["inactive_enter_monotonic"] is None
    assert sorted(path.name for path in folder.iterdir()) == [
        "evidence.json",
        "gpu.json",
        "journal.jsonl.gz",
        "kernel.jsonl.gz",
        "requests.ndjson.gz",
        "server_info.json",
        "show.txt",
        "unit.service",
    ]
    assert messages(folder, "kernel.jsonl.gz")[0].startswith("NVRM: Xid")
    assert any("fired up and ready to roll" in line for line in messages(folder))
    assert "s3cret" not in (folder / "server_info.json").read_text()
    with gzip.open(folder / "requests.ndjson.gz", "rt") as stream:
        assert sum(json.loads(line)["phase"] == "point" for line in stream) == 16
    assert host.property("ActiveState") == "active"


def test_the_death_of_the_engine_ends_the_load_at_once(host: TrialHost) -> None:
    marks = host.start("sweep-0014", engine())
    ready = host.ready(marks, "sweep-0014")
    loading = host.load_popen(ready["invocation_id"], requests_per_key=256, max_tokens=400)
    wait_until(lambda: "Decode batch" in host.run("journalctl", "-u", TRIAL, "-o", "cat"), "it decodes")
    time.sleep(1)
    host.run("systemctl", "kill", "--signal=KILL", TRIAL)
    result = result_of(loading)
    assert (result["outcome"], result["failed"]) == ("died", True)
    assert 0 <= delay(result) <= 2
    assert result["points"][0]["complete"] is False
    assert result["points"][0]["completion_tokens"] is None or result["points"][0]["completion_tokens"] > 0

    evidence, folder = host.evidence(marks, invocation_id=ready["invocation_id"])
    assert (evidence["alive"], evidence["end"]["result"], evidence["stopped_by_others"]) == (
        False,
        "signal",
        False,
    )
    with gzip.open(folder / "requests.ndjson.gz", "rt") as stream:
        assert {json.loads(line)["error"] for line in stream} - {None}


def test_a_found_unit_that_comes_back_preempts_the_load(host: TrialHost) -> None:
    host.write(f"/run/systemd/system/{FOUND}", "[Service]\nExecStart=/usr/bin/sleep 300\n")
    marks = host.start("sweep-0015", engine())
    ready = host.ready(marks, "sweep-0015")
    loading = host.load_popen(ready["invocation_id"], requests_per_key=256, max_tokens=400)
    wait_until(lambda: "Decode batch" in host.run("journalctl", "-u", TRIAL, "-o", "cat"), "it decodes")
    host.run("systemctl", "start", FOUND)
    result = result_of(loading)
    assert result["outcome"] == "preempted", result["msg"]

    evidence, _ = host.evidence(marks, invocation_id=ready["invocation_id"])
    assert (evidence["preempted_by"], evidence["stopped_by_others"]) == (FOUND, True)
    assert evidence["alive"] is False


def test_a_garbled_engine_is_seen_by_outputs_canaries_and_acceptance(host: TrialHost) -> None:
    marks = host.start("sweep-0017", engine(profile="garbled"))
    ready = host.ready(marks, "sweep-0017")
    assert ready["outcome"] == "ready"
    result = result_of(
        host.load_popen(ready["invocation_id"], client_keys=[{"concurrency": 4}], max_tokens=96)
    )
    point = result["points"][0]
    assert point["failed"] == 0
    assert point["al"] < 1.05
    assert point["garble"]["flagged"] == point["garble"]["of"] == 8
    assert len(result["garbled_samples"]) == 3
    wrong = [one for one in result["canaries"] if not one["ok"] and one["error"] is None]
    assert {one["phase"] for one in wrong} == {"single", "busiest"}


def test_a_load_whose_controller_is_gone_ends_by_its_own_bound(host: TrialHost) -> None:
    def connections() -> str:
        return host.run("ss", "-Htn", "state", "established", f"( dport = :{PORT} )")

    marks = host.start("sweep-0018", engine())
    ready = host.ready(marks, "sweep-0018")
    began = time.monotonic()
    loading = host.load_popen(ready["invocation_id"], requests_per_key=4000, max_tokens=400, timeout_s=12)
    wait_until(connections, "the load has begun")
    loading.kill()
    loading.communicate()
    time.sleep(2)
    assert connections()
    wait_until(lambda: not connections(), "the load has ended", timeout=30)
    assert time.monotonic() - began > 8
    assert host.property("ActiveState") == "active"


def test_lines_that_journald_dropped_are_counted(host: TrialHost) -> None:
    flood = "for n in $(seq 400); do echo line $n; done; sleep 3; echo after"
    marks = host.start(
        "sweep-0016", f"/bin/sh -c '{flood}'", "LogRateLimitIntervalSec=2s", "LogRateLimitBurst=20"
    )
    wait_until(lambda: "after" in host.run("journalctl", "-u", TRIAL, "-o", "cat").split("\n"), "it ends")
    evidence, _ = host.evidence(marks)
    assert evidence["lost_lines"] > 100
    assert "journald suppressed" in " ".join(evidence["notes"])


# A dead link is noticed last of all: that case takes a minute and a half.
@pytest.mark.parametrize("how", ["killed", pytest.param("cable out", marks=pytest.mark.long)])
def test_a_lease_ends_when_its_controller_is_gone_in_the_middle_of_a_module(
    host: TrialHost, how: str
) -> None:
    """Nobody is told: ansible-playbook gets SIGKILL, or its machine falls silent (sshd asks for nothing)."""
    host.write(f"/run/systemd/system/{FOUND}", "[Service]\nExecStart=/usr/bin/sleep infinity\n")
    host.run("systemctl", "daemon-reload")
    host.run("systemctl", "start", FOUND)
    holder = {"sweep_id": "lab-1", "host": "ctl", "boot_id": "b", "pid": 1, "pid_start": 1}
    lease = {"seconds": 15, "holder": holder}
    taken = host.module(
        "treeline_found",
        state="snapshot",
        found_units=[FOUND],
        trial_unit=TRIAL,
        ready_timeout=30,
        lease=lease,
    )
    assert not taken["failed"], taken
    marks = host.start("sweep-0001", "/usr/bin/sleep infinity")
    process = host.ready_popen(marks, "sweep-0001", timeout_s=300, lease=lease)
    # The lease would have ended by now; long enough to see that the client asks every five seconds.
    time.sleep(30)
    assert host.property("ActiveState") == "active"
    began = time.monotonic()
    if how == "killed":
        process.kill()
    else:
        host.link(False)
    # At most a minute until the silence is noticed, then the lease, then the restore.
    bound = 40 if how == "killed" else 100
    try:
        wait_until(
            lambda: host.property("ActiveState", FOUND) == "active", "the lease restored the host", bound
        )
    finally:
        host.link(True)
        process.kill()
        process.communicate(timeout=30)
    assert time.monotonic() - began < bound
    wait_until(lambda: not host.run("ls", "/var/lib/treeline").count("found.json"), "the restore is proven")
