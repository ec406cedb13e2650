"""Print how long a rollout takes on lab hosts, by wave and by host: two hardware classes behind a router.

Hosts are real ones to Ansible, systemd and the router, but they all share this machine's cores: a wave's time
grows with its hosts here, while a fleet's hosts work side by side. The engine's timing is simulated. Needs
root.

Usage: bench_rollout_hosts.py [--hosts 16] (about ten minutes on two cores)
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "playbook"))
from fleet import LONG, Fleet, boot
from treeline.keys import RestartKey

GOOD = RestartKey(budget=6, topk=4, maxreq=16, block_size=8, graphs=True)
WANTED = {"config": "best", "objective": "throughput@4"}


def main() -> None:
    """Run it and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=16, help="How many hosts, in two classes.")
    hosts: int = parser.parse_args().hosts
    classes = {
        name: tuple(f"{name[0]}{number}" for number in range(1, size + 1))
        for name, size in (("small", hosts - hosts // 2), ("large", hosts // 2))
    }
    with tempfile.TemporaryDirectory(prefix="treeline-bench-") as name:
        folder = Path(name)
        began = time.monotonic()
        fleet = boot(f"bench-{os.getpid()}", classes, "10.66.0.1", folder, {}, decode_scale=2)
        try:
            print(
                f"{hosts} hosts and a router up, deployed to and registered: {time.monotonic() - began:.0f} s"
            )
            measure(fleet.with_results(folder / "results"))
        finally:
            fleet.lab.down()


def measure(fleet: Fleet) -> None:
    """Roll out once for real and once more when nothing is to be done; print what each took."""
    fleet.record(1, GOOD)
    for what in ("first rollout", "second rollout, nothing to do"):
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        fleet.run("rollout.yml", timeout=2 * LONG, **WANTED)
        wall = time.monotonic() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        each = len(fleet.hosts)
        print(
            f"{what}: {wall:.0f} s, {wall / each:.1f} s a host; "
            f"{cpu:.0f} s of the controller's CPU, {cpu / each:.1f} s a host"
        )
        by_wave(fleet.lines_of_newest())


def by_wave(lines: list[dict[str, Any]]) -> None:
    """Print one line a wave: from the first host's start to the last one's verdict."""
    for wave in sorted({line["wave"] for line in lines}):
        inside = [line for line in lines if line["wave"] == wave]
        starts = [moment(line["started_at"]) for line in inside if line["started_at"]]
        if not starts:
            continue
        seconds = (max(moment(line["at"]) for line in inside) - min(starts)).total_seconds()
        names = ", ".join(line["host"] for line in inside)
        print(f"  wave {wave}: {seconds:6.1f} s, {seconds / len(inside):5.1f} s a host ({names})")


def moment(text: str) -> datetime:
    """A record's time stamp."""
    return datetime.fromisoformat(text)


if __name__ == "__main__":
    main()
