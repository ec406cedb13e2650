"""250 trials (TREELINE_LONG_TRIALS) in one command, in rounds of ten: the time per trial does not grow.

The trials are as small as they can be: the engine refuses nine of ten configurations at once and serves the
tenth, so that all fit into half an hour. What is compared is what a trial costs beside the engine's start and
its load: from one claim to the next, less both.
"""

from __future__ import annotations

import itertools
import json
import re
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import Target, number
from labs import deployed
from treeline.records import seconds_between

HOSTS = {"long1": "10.66.0.105"}
TRIALS = 250
AT_EITHER_END = 50
GROWTH = 1.25
BOUND_S = 3000
PROFILE = "/etc/treeline-test-profile.json"
REFUSES = {"name": "refuses", "rules": [{"when": {"maxreq": {"above": 1}}, "profile": "config-rejected"}]}

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """One host whose engine refuses what takes more than one request."""
    with deployed("trials", HOSTS, tmp_path_factory.mktemp("trials")) as target:
        target.write("long1", PROFILE, json.dumps(REFUSES))
        yield target


def test_the_time_per_trial_does_not_grow(
    host: Target, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = int(number("TREELINE_LONG_TRIALS", TRIALS))
    part = min(AT_EITHER_END, wanted // 3)
    points = tmp_path / "points.csv"
    points.write_text(table(wanted), encoding="utf-8")
    target = Target(host.lab, host.inventory, host.hosts, tmp_path / "results")
    began = time.monotonic()
    running = target.start(
        "sweep.yml",
        points=str(points),
        max_trials_per_run=wanted + AT_EITHER_END,
        sglang_ddtree_extra_args={"fault-profile": PROFILE, "time-scale": 0.001},
        concurrency=1,
        treeline_max_tokens=8,
        treeline_requests_per_key=1,
        treeline_canaries_single=1,
    )
    memory = watched(running, BOUND_S)
    seconds = time.monotonic() - began
    log = (target.results / "sweep.yml.log").read_text(encoding="utf-8", errors="replace")
    assert running.returncode == 0, log[-6000:]
    trials = target.finished()
    settled = {
        trial["item_id"]: trial["status"] for trial in trials if trial["effect"] not in ("back", "void")
    }
    costs = beside_engine_and_load(target.started(), trials)
    first, last = statistics.median(costs[:part]), statistics.median(costs[-part:])
    with capsys.disabled():
        print(
            f"\n{len(trials)} trials in {seconds:.0f} s, {seconds / len(trials):.1f} s each; beside the "
            f"engine's start and the load {first:.2f} s (median of the first {part}) and {last:.2f} s "
            f"(of the last): x {last / first:.3f}; the controller held {memory[len(memory) // 5]:.0f} MB "
            f"after a fifth of the time and {max(memory):.0f} MB at most"
        )
    assert len(settled) == wanted
    assert set(settled.values()) == {"ok", "rejected"}
    assert last / first < GROWTH


def table(count: int) -> str:
    """So many small configurations that differ."""
    keys = itertools.islice(itertools.product(range(4, 29), range(1, 11)), count)
    return "budget,topk,maxreq\n" + "".join(f"{budget},4,{maxreq}\n" for budget, maxreq in keys)


def watched(process: subprocess.Popen[str], bound_s: float) -> list[float]:
    """Resident memory of a process until it ends, in MB, every other second; it is ended after the bound."""
    seen: list[float] = []
    until = time.monotonic() + bound_s
    while process.poll() is None:
        if time.monotonic() > until:
            process.terminate()
            process.wait(60)
            raise AssertionError(f"the sweep did not end within {bound_s:g} s")
        try:
            status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii", errors="replace")
        except OSError:
            continue
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        seen += [int(found[1]) / 1e3] if found else []
        time.sleep(2)
    return seen


def beside_engine_and_load(started: list[dict[str, Any]], finished: list[dict[str, Any]]) -> list[float]:
    """Seconds from each trial's claim to the next one's, less the engine's start and the load."""
    times = {trial["trial_id"]: trial["times"] for trial in finished}
    return [
        seconds_between(this["at"], after["at"])
        - (times[this["trial_id"]]["waited_s"] or 0)
        - (times[this["trial_id"]]["load_s"] or 0)
        for this, after in itertools.pairwise(started)
    ]
