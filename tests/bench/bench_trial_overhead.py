"""Print module executions and orchestration seconds of a trial; at most 10 of each are allowed.

Boots a lab host of its own, deploys, sweeps three configurations and asks the host's journal, where every
Ansible module announces itself, how many ran for each trial. Orchestration is the time from claim to record
less the engine's start (until readiness was decided) and the load. Needs root.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from datetime import datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "playbook"))
from harness import QUICK, Target
from treeline_lab.lab import Lab

HOSTS = {"bench": "10.66.0.31"}


def executions(target: Target, started_at: str, finished_at: str) -> list[str]:
    """Names of the modules that the host saw between a claim and its record."""
    window = [f"--since={local(started_at)}", f"--until={local(finished_at)}"]
    text = target.on("bench", "journalctl", "-q", "--no-pager", "-o", "short", "-g", "Invoked with", *window)
    words = [line.split()[4] for line in text.splitlines() if "ansible-" in line]
    return [word.split("[")[0].removeprefix("ansible-") for word in words]


def local(stamp: str) -> str:
    """An ISO stamp in UTC as journalctl takes it."""
    return datetime.fromisoformat(stamp).strftime("%Y-%m-%d %H:%M:%S.%f UTC")


def main() -> None:
    """Run it and print the figures."""
    with tempfile.TemporaryDirectory(prefix="treeline-bench-") as name:
        folder = Path(name)
        lab = Lab(f"bench-{os.getpid()}")
        try:
            lab.up(HOSTS)
            inventory = lab.write_inventory(folder / "hosts.yml", HOSTS)
            target = Target(lab, inventory, tuple(HOSTS), folder / "results")
            target.run("deploy.yml")
            target.run("sweep.yml", budget="4,8,16", maxreq="16", **QUICK)
            report(target)
        finally:
            lab.down()


def report(target: Target) -> None:
    """Print one line a trial and the worst."""
    counts, seconds = [], []
    for trial in target.finished():
        times = trial["times"]
        modules = executions(target, times["started_at"], trial["at"])
        overhead = times["total_s"] - (times["waited_s"] or 0) - (times["load_s"] or 0)
        counts.append(len(modules))
        seconds.append(overhead)
        print(
            f"budget {trial['key']['budget']:>2} {trial['status']:<8} {len(modules):>2} module executions, "
            f"{overhead:5.1f} s orchestration (stop of the unit before included)  {' '.join(modules)}"
        )
    print(
        f"worst: {max(counts)} module executions (budget 10), {max(seconds):.1f} s, "
        f"median {statistics.median(seconds):.1f} s of orchestration (budget 10 s)"
    )


if __name__ == "__main__":
    main()
