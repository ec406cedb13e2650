"""The node's faults, planted with the lab's stand-ins: Xid lines, and strangers on the GPUs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest
from harness import PRODUCTION, QUICK, TRIAL, Target, eventually
from test_faults import stop
from treeline_lab import standins

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def gpus(alpha: Target) -> Iterator[Target]:
    """Alpha with two stand-in GPUs, of which the production service holds one."""
    host = alpha.lab.host("alpha")
    standins.give_gpus(host, 2)
    standins.use_by(host, PRODUCTION, 60_000)
    try:
        yield alpha
    finally:
        standins.take_gpus(host)


def test_an_orphan_is_ended_and_an_xid_takes_the_host_out(gpus: Target) -> None:
    """The first trial ends what an earlier one left; the second meets the Xid; no third begins."""
    host = gpus.lab.host("alpha")
    orphan = standins.hold(host, TRIAL, 30_000, gpu=1)
    # A start of four seconds leaves time to plant something; with slow steps a busy machine keeps up.
    flags = {"fault-profile": "none", "time-scale": 0.01, "decode-time-scale": 2}
    run = gpus.start("sweep.yml", budget="4,6,8", maxreq="8", **QUICK, sglang_ddtree_extra_args=flags)
    try:
        eventually("a second trial has started", lambda: on(run) and len(gpus.started()) == 2, timeout=240)
        second = gpus.started()[1]["trial_id"]
        eventually("its engine runs", lambda: on(run) and runs(gpus, second), timeout=120)
        standins.plant_kernel_line(host, standins.xid_line(79))
        assert run.wait(timeout=240) == 2
    finally:
        stop(run)
    first, void = gpus.finished()
    output = (gpus.results / "sweep.yml.log").read_text(encoding="utf-8")
    said = " ".join(output.split())

    assert first["status"] == "ok"
    assert f"pid {orphan} (treeline-lab-holder infinity), of {TRIAL}" in said
    assert "was left behind; the first trial ends it before it starts" in said
    (evidence,) = (gate["detail"] for gate in first["gates"] if gate["name"] == "evidence")
    assert f"pid {orphan} (treeline-lab-holder infinity) of {TRIAL}" in evidence
    assert not lives(gpus, orphan)

    assert (void["status"], void["class"], void["kind"]) == ("void", "xid_bus", "node")
    assert void["first_error"].startswith("NVRM: Xid (PCI:0000:3b:00): 79")
    assert standins.PLANTED in void["first_error"]
    assert "[alpha] does no more trials in this run: its hardware or driver failed (void xid_bus:" in said
    assert "2 items of the plan were not run (alpha: its hardware or driver failed" in said
    kernel = gpus.results / void["sweep_id"] / void["evidence"] / "kernel.jsonl.gz"
    unpacked = subprocess.run(["zcat", str(kernel)], check=True, capture_output=True, text=True).stdout
    assert json.loads(unpacked.splitlines()[0])["TREELINE_SOURCE"].startswith("stand-in file")


def test_a_stranger_on_a_gpu_is_named_before_anything_is_changed(gpus: Target) -> None:
    stranger = standins.hold(gpus.lab.host("alpha"), "somebodys-training.service", 30_000, gpu=1)
    try:
        output = " ".join(gpus.run("sweep.yml", expect=2, budget="8", **QUICK).split())
        assert lives(gpus, stranger)
    finally:
        gpus.on("alpha", "kill", "-KILL", str(stranger))
    for text in (f"pid {stranger}", "treeline-lab-holder", "somebodys-training", "treeline_found_units"):
        assert text in output
    assert not gpus.started()


def on(run: subprocess.Popen[str]) -> bool:
    """That the playbook runs; its end is no reason to wait any longer."""
    assert run.poll() is None, f"the sweep has ended with {run.returncode}"
    return True


def runs(target: Target, trial_id: str) -> bool:
    """Whether the engine of that trial is up."""
    shown = target.show("alpha", TRIAL, "ActiveState", "Environment")
    return shown.get("ActiveState") == "active" and trial_id in shown.get("Environment", "")


def lives(target: Target, pid: int) -> bool:
    """Whether a process is there on alpha."""
    return bool(target.on("alpha", "ls", "-d", f"/proc/{pid}", check=False).strip())
