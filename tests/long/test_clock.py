"""The controller's clock jumps by two days, either way, in mid-trial or between a kill and the resumed run.

Played by a library before libc (clock_shift.c, built here) on ansible-playbook alone; libfaketime breaks
sleeps by the monotonic clock. A lab host shares its clock with this machine, and a time namespace has no
CLOCK_REALTIME of its own: a jump on the target cannot be played. The lease and every duration there rest on
CLOCK_BOOTTIME and CLOCK_MONOTONIC, which do not jump.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import killing
import pytest
from looks import HostState, Outcome, host_differs, lines, results_differ
from rounds import Bench
from stages import wait_for

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler (Debian package gcc)"),
]
DAY = 86400


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that shifts the clock."""
    made = tmp_path_factory.mktemp("clock") / "clock_shift.so"
    source = Path(__file__).with_name("clock_shift.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", str(made), str(source), "-ldl"], check=True)
    return made


def clock(library: Path, folder: Path, seconds: int) -> dict[str, str]:
    """The environment of a run whose clock is off by what stands in a file, which may change meanwhile."""
    file = folder / "shift"
    part = folder / "shift.part"
    part.write_text(f"{seconds}\n", encoding="ascii")
    part.replace(file)
    return {"LD_PRELOAD": str(library), "CLOCK_SHIFT": str(file)}


@pytest.mark.parametrize("jump", [2 * DAY, -2 * DAY])
def test_a_jump_in_mid_trial(bench: Bench, library: Path, tmp_path: Path, jump: int) -> None:
    results = tmp_path / "results"
    run = bench.start(results, environ=clock(library, tmp_path, 0))
    assert wait_for(run.trace, lambda step: step == "ready", run.alive), run.tail()
    clock(library, tmp_path, jump)
    assert run.wait() == 0, run.tail()
    as_ever(bench, results)


@pytest.mark.parametrize("jump", [2 * DAY, -2 * DAY])
def test_a_jump_before_the_resumed_run(bench: Bench, library: Path, tmp_path: Path, jump: int) -> None:
    results = tmp_path / "results"
    run = bench.start(results, environ=clock(library, tmp_path, 0))
    assert wait_for(run.trace, lambda step: step == "restart", run.alive), run.tail()
    killing.kill(run.process.pid, "tree")
    run.process.wait(30)
    again = bench.start(results, environ=clock(library, tmp_path, jump))
    assert again.wait() == 0, again.tail()
    as_ever(bench, results)
    assert sum(line["event"] == "started" for line in lines(results, "trials.jsonl")) == 4


def as_ever(bench: Bench, results: Path) -> None:
    """One sweep, complete, with the results of an undisturbed one, and the host as it was."""
    assert bench.control is not None
    assert bench.rest is not None
    assert len(list(results.glob("*/sweep.json"))) == 1
    assert results_differ(bench.control, Outcome.of(results)) == []
    assert host_differs(bench.rest, HostState.of(bench.target, bench.host)) == []
    finished = [line for line in lines(results, "trials.jsonl") if line["event"] == "finished"]
    assert len(finished) == 3
    for line in finished:  # durations are not clock readings
        for name in ("restart_s", "waited_s", "load_s"):
            assert line["times"][name] is None or 0 <= line["times"][name] < 300, (name, line["times"])
