"""Full disks on either side and a journal that forgets, in mid-trial: the same command again goes on."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest
from harness import eventually
from looks import lines
from rounds import Bench, Running, look_after
from stages import wait_for
from treeline_lab import disks

HOST = "omega"
pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]


@pytest.mark.parametrize("step", ["open", "load", "record"])
def test_full_results_folder(bench: Bench, tmp_path: Path, step: str) -> None:
    results, logs = tmp_path / "results", tmp_path / "logs"
    logs.mkdir()
    with small_disk(results):
        run = bench.start(results, logs)
        reach(bench, run, results, step)
        ballast = results / "ballast"
        fill_up(ballast)
        status = run.wait()
        said = run.tail(30000)
        # Nothing that the results folder does may keep the host from being given back.
        eventually("the found service serves", lambda: bench.target.served(HOST))
        ballast.unlink()
        assert status != 0, said[-3000:]
        assert "the disk is full" in said or "No space left" in said
        again = bench.start(results, logs)
        assert again.wait() == 0, again.tail()
        if step == "open":
            assert look_after(bench, results, []) == []
        else:
            [lost] = [line for line in starts(results) if line["trial_id"] not in verdicts(results)]
            assert len(starts(results)) == 4, lost
            assert look_after(bench, results, [run_began(lost)]) == []


@pytest.mark.parametrize("place", ["/run", "/var/lib/treeline"])
@pytest.mark.parametrize("step", ["configure", "load", "restore"])
def test_full_disk_on_the_target(bench: Bench, tmp_path: Path, step: str, place: str) -> None:
    results = tmp_path / "results"
    run = bench.start(results)
    host = bench.target.lab.host(HOST)
    try:
        reach(bench, run, results, step)
        disks.fill(host, place)
        status = run.wait()
        if place != "/run":  # systemd itself needs room there to start anything
            eventually("the found service serves", lambda: bench.target.served(HOST))
    finally:
        disks.drain(host, place)
    if status != 0:
        again = bench.start(results)
        assert again.wait() == 0, again.tail()
    lost = [line for line in starts(results) if line["trial_id"] not in verdicts(results)]
    assert len(lost) <= (status != 0), lost
    broken = look_after(bench, results, [run_began(line) for line in lost])
    # Evidence that found no room is missing, and the record says so; all else is as ever.
    assert [each for each in broken if each not in said_to_be_missing(results, broken)] == []


@pytest.mark.parametrize("step", ["ready", "load"])
def test_a_journal_that_forgets_in_mid_trial(bench: Bench, tmp_path: Path, step: str) -> None:
    results = tmp_path / "results"
    run = bench.start(results)
    reach(bench, run, results, step)
    disks.forget_journal(bench.target.lab.host(HOST))
    assert run.wait() == 0, run.tail()
    first = next(line for line in lines(results, "trials.jsonl") if line["event"] == "finished")
    assert first["status"] == "ok"
    [said] = [gate["detail"] for gate in first["gates"] if gate["name"] == "evidence"]
    assert not said.startswith("0 lines"), said
    assert look_after(bench, results, []) == []


def reach(bench: Bench, run: Running, results: Path, step: str) -> None:
    """Wait until the run is at a step; `load`: until records of its load are on the host."""

    def here(at: str) -> bool:
        if step != "load":
            return at == step
        return at == "canary" and bench.load_has_begun(starts(results)[-1]["trial_id"])

    assert wait_for(run.trace, here, run.alive), run.tail()


@contextmanager
def small_disk(at: Path, size: str = "3m") -> Iterator[None]:
    """A file system of its own at a path."""
    at.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "treeline-test", str(at)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(at)], check=True)


def fill_up(path: Path) -> None:
    """Write until nothing more goes in."""
    with path.open("wb", buffering=0) as stream:
        try:
            while True:
                stream.write(b"\0" * 4096)
        except OSError:
            return


def starts(results: Path) -> list[dict[str, object]]:
    """The claims so far."""
    return [line for line in lines(results, "trials.jsonl") if line["event"] == "started"]


def said_to_be_missing(results: Path, broken: list[str]) -> list[str]:
    """Sentences about evidence of items whose record tells that it is not available."""
    told = [
        line["item_id"]
        for line in lines(results, "trials.jsonl")
        if line["event"] == "finished"
        for gate in line["gates"]
        if gate["name"] == "evidence" and gate["verdict"] == "not available"
    ]
    return [each for each in broken for item in told if each.startswith(f"evidence of {item}:")]


def verdicts(results: Path) -> set[object]:
    """Trials with a verdict."""
    return {line["trial_id"] for line in lines(results, "trials.jsonl") if line["event"] == "finished"}


def run_began(line: dict[str, object]) -> float:
    """When a trial was claimed, as seconds since the epoch."""
    return datetime.fromisoformat(str(line["at"])).timestamp()
