"""Node facts on real hosts: who is on the GPUs before a start, and what the kernel says meanwhile.

systemd, control groups and processes are real; the GPU query tool and the kernel log are stand-ins.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from found_host import STAND_IN, TRIAL, FoundHost, TargetError
from found_scenes import LEASE, give_back, running_engine, take
from treeline import node_facts, verdict
from treeline.keys import RestartKey
from treeline.plan.history import Past
from treeline.plan.step import out_reason
from treeline.signatures import classify_journal
from treeline.steps import Steps
from treeline_lab import standins
from treeline_lab.host import Host

pytestmark = pytest.mark.lab

TOOL = f"/{standins.TOOL}"
KERNEL_LOG = "/var/log/treeline-kernel.log"
ENGINE = "engine.service"
OUT = "/run/treeline/evidence/trial-1"


@pytest.fixture
def gpus(host: FoundHost) -> Iterator[Host]:
    """The host with two stand-in GPUs, nothing on them."""
    lab_host = host.lab.host(host.name)
    standins.give_gpus(lab_host, 2)
    yield lab_host
    standins.take_gpus(lab_host)
    host.run("systemctl", "stop", "stranger.service")


def begin(host: FoundHost) -> dict[str, Any]:
    return dict(host.call("begin", trial_unit=TRIAL, lease=LEASE, gpu_query=TOOL))


def alive(host: FoundHost, pid: int) -> bool:
    return host.run("kill", "-0", str(pid)).returncode == 0


def start_of(host: FoundHost, pid: int) -> str:
    return host.run("cat", f"/proc/{pid}/stat").stdout.rpartition(")")[2].split()[19]


def test_a_found_service_that_runs_is_in_its_place(host: FoundHost, gpus: Host) -> None:
    running_engine(host)
    standins.use_by(gpus, ENGINE, 30000, gpu=1)
    take(host, [ENGINE])
    pid = host.property(ENGINE, "MainPID")
    marks = begin(host)
    (holder,) = marks["holders"]
    assert (str(holder["pid"]), holder["unit"], holder["place"]) == (pid, ENGINE, "found")
    assert (holder["memory_mib"], holder["gpus"]) == (30000, ["GPU-stand-in-0001"])
    assert marks["orphans_ended"] == []
    assert host.state(ENGINE) == "active"
    # The trial that then starts takes its place, and the next beginning finds the GPUs empty.
    host.start_trial([ENGINE])
    assert begin(host)["holders"] == []
    assert host.state(ENGINE) == "inactive"


def test_the_trial_before_is_stopped_and_its_life_remembered(host: FoundHost, gpus: Host) -> None:
    running_engine(host)
    take(host, [ENGINE])
    host.start_trial([ENGINE])
    standins.use_by(gpus, TRIAL, 20000)
    life, pid = host.property(TRIAL, "InvocationID"), int(host.property(TRIAL, "MainPID"))
    marks = begin(host)
    assert (host.state(TRIAL), alive(host, pid)) == ("inactive", False)
    assert marks["previous_invocation_id"] == life
    assert (marks["holders"], marks["orphans_ended"]) == ([], [])


def test_what_a_stopped_service_left_behind_is_ended(host: FoundHost, gpus: Host) -> None:
    # KillMode=process: systemd stops the main process alone, as real units do that hand work to children.
    host.service(
        "web.service",
        "/bin/sh -c 'setsid sleep 1111 & exec sleep 2222'",
        service="KillMode=process",
    )
    running_engine(host)
    host.start("web.service")
    take(host, [ENGINE, "web.service"])
    host.run("systemctl", "stop", "web.service")
    left = int(host.run("pgrep", "-f", "^sleep 1111").stdout)
    standins.hold_as(gpus, left, start_of(host, left), 40000)
    # Another one, in the trial's own group, which systemd does not know of while the unit is not loaded.
    unknown = standins.hold(gpus, TRIAL, 8000, gpu=1)

    looked = host.call(
        "preflight",
        found_units=[ENGINE, "web.service"],
        trial_unit=TRIAL,
        production_port=30000,
        trial_port=31990,
        gpu_query=TOOL,
    )
    assert f"pid {left} (sleep 1111), of web.service, holding 40000 MiB" in "\n".join(looked["notes"])
    assert looked["problems"] == []
    assert alive(host, left)

    marks = begin(host)
    ended = {(one["pid"], one["unit"], one["memory_mib"]) for one in marks["orphans_ended"]}
    assert ended == {(left, "web.service", 40000), (unknown, TRIAL, 8000)}
    assert not alive(host, left)
    assert not alive(host, unknown)
    assert marks["holders"] == []
    assert (host.state(ENGINE), host.state("web.service")) == ("active", "inactive")


def test_a_stranger_stops_the_start_and_is_named(host: FoundHost, gpus: Host) -> None:
    running_engine(host)
    take(host, [ENGINE])
    host.start_trial([ENGINE])
    host.run("systemd-run", "--unit=stranger", "sleep", "3333")
    pid = int(host.property("stranger.service", "MainPID"))
    standins.hold_as(gpus, pid, start_of(host, pid), 12345)
    orphan = standins.hold(gpus, ENGINE, 500, gpu=1)
    with pytest.raises(TargetError) as caught:
        begin(host)
    assert caught.value.kind == "NotEmptyError"
    assert f"pid {pid} (/usr/bin/sleep 3333), of stranger.service, holding 12345 MiB" in str(caught.value)
    assert "treeline_found_units (engine.service)" in str(caught.value)
    # Nothing was touched: not the stranger, not the trial before, not what is left behind.
    assert alive(host, pid)
    assert alive(host, orphan)
    assert host.state(TRIAL) == "active"
    looked = host.call(
        "preflight",
        found_units=[ENGINE],
        trial_unit=TRIAL,
        production_port=30000,
        trial_port=31990,
        gpu_query=TOOL,
    )
    assert [problem for problem in looked["problems"] if "stranger.service" in problem]
    assert looked["facts"]["hardware_class_hint"] == "2x Stand-in GPU of treeline-lab"

    host.run("systemctl", "stop", "stranger.service")
    assert [one["pid"] for one in begin(host)["orphans_ended"]] == [orphan]


def test_memory_without_a_process_is_reported_with_its_figure(host: FoundHost, gpus: Host) -> None:
    running_engine(host)
    take(host, [ENGINE])
    standins.set_field(gpus, 1, "memory.used", "9000")
    marks = begin(host)
    assert any("GPU 1 (GPU-stand-in-0001): 9000 MiB are in use" in note for note in marks["notes"])


def evidence(host: FoundHost, marks: dict[str, Any], folder: Path) -> tuple[dict[str, Any], Path]:
    """The result of the evidence program, and the folder with what its archive holds."""
    found = host.call(
        "evidence",
        unit=TRIAL,
        trial_id="trial-1",
        out_dir=OUT,
        since_realtime_usec=marks["at_realtime_usec"],
        since_monotonic=marks["at_monotonic"],
        previous_invocation_id=marks["previous_invocation_id"],
        cursor=marks["cursor"],
        found_units=[ENGINE],
        kernel_log=KERNEL_LOG,
        gpu_query=TOOL,
    )
    packed = folder / "evidence.tar.gz"
    with packed.open("wb") as stream:
        argv = host.lab.host(host.name).enter_command(["cat", found["archive"]])
        subprocess.run(argv, stdout=stream, check=True, timeout=30)
    with tarfile.open(packed) as tar:
        tar.extractall(folder, filter="data")
    return dict(found), folder


def decide(marks: dict[str, Any], found: dict[str, Any], folder: Path) -> verdict.Verdict:
    """The verdict on a trial that served and was loaded without complaint."""
    log = classify_journal(
        folder / "journal.jsonl.gz",
        alive=True,
        kernel=folder / "kernel.jsonl.gz",
        kernel_since=marks["at_realtime_usec"],
    )
    steps = Steps.of(
        {
            "begin": marks,
            "restart": {"status": {}},
            "ready": {"outcome": "ready", "invocation_id": found["end"]["invocation_id"]},
            "load": {"outcome": "done", "points": []},
            "evidence": found,
        }
    )
    key = RestartKey(budget=8, topk=4, maxreq=16, block_size=8, graphs=True)
    return verdict.decide(verdict.TrialFacts(key, key.width, steps, log))


def test_a_planted_xid_voids_the_trial_and_takes_the_host_out(
    host: FoundHost, gpus: Host, tmp_path: Path
) -> None:
    running_engine(host)
    take(host, [ENGINE])
    standins.plant_kernel_line(gpus, standins.xid_line(48))  # before this trial: none of its business
    marks = begin(host)
    standins.plant_kernel_line(gpus, standins.xid_line(79))  # of this trial, if not of its process
    host.start_trial([ENGINE], f"{STAND_IN} --port 31990")
    standins.plant_kernel_line(gpus, standins.xid_line(154))
    found, folder = evidence(host, marks, tmp_path)
    assert found["kernel"]["lines"] == 2
    with gzip.open(folder / "kernel.jsonl.gz", "rt", encoding="utf-8") as stream:
        assert {json.loads(line)["TREELINE_SOURCE"] for line in stream} == {f"stand-in file {KERNEL_LOG}"}
    said = decide(marks, found, folder)
    assert (said.status, said.effect, said.kind, said.class_) == ("void", "node", "node", "xid_bus")
    assert "GPU has fallen off the bus. (planted by treeline-lab, not real)" in str(said.first_error)
    past = Past(trial_id="t1", item_id="i", cell="c", host="h", effect=said.effect, what=str(said.class_))
    assert out_reason([past], "h") == "its hardware or driver failed (xid_bus, trial t1)"


def test_a_failure_between_two_trials_keeps_the_next_one_from_starting(
    host: FoundHost, gpus: Host, tmp_path: Path
) -> None:
    running_engine(host)
    take(host, [ENGINE])
    marks = begin(host)
    host.start_trial([ENGINE])
    evidence(host, marks, tmp_path)
    standins.plant_kernel_line(gpus, standins.xid_line(13))  # a fault of the application that was stopped
    asked = {"trial_unit": TRIAL, "trial_id": "trial-2", "lease": LEASE, "gpu_query": TOOL}
    assert host.call("begin", **asked, kernel=KERNEL_LOG)["trial_id"] == "trial-2"
    evidence(host, marks, tmp_path)
    standins.plant_kernel_line(gpus, standins.xid_line(79))
    for _ in "12":  # it is not forgotten by failing once: two voids in a row take the host out
        with pytest.raises(TargetError, match=r"since the trial before, .* GPU has fallen off the bus"):
            host.call("begin", **{**asked, "trial_id": "trial-3"}, kernel=KERNEL_LOG)
    give_back(host)
    take(host, [ENGINE])
    assert host.call("begin", **asked, kernel=KERNEL_LOG)["trial_id"] == "trial-2"

    standins.set_field(gpus, 1, "gpu_recovery_action", "Reset")
    with pytest.raises(
        TargetError, match=r"the driver asks to recover GPU 1 \(GPU-stand-in-0001\) first: Reset"
    ):
        begin(host)


def test_a_memory_error_during_the_trial_is_a_node_fault(host: FoundHost, gpus: Host, tmp_path: Path) -> None:
    running_engine(host)
    take(host, [ENGINE])
    standins.set_field(gpus, 1, "ecc.errors.uncorrected.aggregate.total", "5")
    marks = begin(host)
    host.start_trial([ENGINE])
    intruder = standins.hold(gpus, ENGINE, 700)
    quiet, _ = evidence(host, marks, tmp_path)
    assert node_facts.node_fault(quiet["gpu"]["before"], quiet["gpu"]["after"]) is None
    said = node_facts.intruders(quiet["gpu"]["after"])
    assert said is not None
    assert f"pid {intruder} (treeline-lab-holder infinity) of engine.service, 700 MiB" in said

    standins.set_field(gpus, 1, "ecc.errors.uncorrected.aggregate.total", "6")
    found, folder = evidence(host, marks, tmp_path)
    assert json.loads((folder / "gpu.json").read_text()) == found["gpu"]
    fault = node_facts.node_fault(found["gpu"]["before"], found["gpu"]["after"])
    assert fault is not None
    assert fault.startswith("GPU 1 (GPU-stand-in-0001): 1 more uncorrected memory errors")
    # The leftover beside the trial is ended before the next one.
    assert [one["pid"] for one in begin(host)["orphans_ended"]] == [intruder]


def test_telemetry_is_sampled_and_leaves_no_process(host: FoundHost, gpus: Host) -> None:
    standins.set_field(gpus, 0, "power.draw", "300.00")
    summary = host.call("sample", gpu_query=TOOL, path="/run/telemetry.ndjson.gz", for_s=5, tokens=8000)
    assert summary["source"] == f"{TOOL} (Stand-in GPU of treeline-lab)"
    assert (summary["valid"], summary["reason"], summary["gpus"]) == (True, None, 2)
    assert summary["power_w"] == pytest.approx(400)
    assert summary["tokens_per_joule"] == pytest.approx(8000 / summary["energy_j"])
    assert host.run("pgrep", "-f", "query-gpu").stdout == ""
    rows = host.run("zcat", "/run/telemetry.ndjson.gz").stdout.splitlines()
    assert len(rows) >= 1 + 2 * 4

    standins.take_gpus(gpus)
    absent = host.call("sample", gpu_query=TOOL, path="/run/none.gz", for_s=0.1, tokens=1)
    assert (absent["valid"], absent["power_w"], absent["source"]) == (False, None, None)
    assert absent["reason"] == f"no GPU query tool on this host ({TOOL})"
    assert not host.exists("/run/none.gz")
