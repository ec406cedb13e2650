"""Print what a rollout costs on the controller, by number of hosts, and what Ansible's settings do to it.

Hosts are local connections with a no-op engine: a wave has a tenth of the tasks of a real one, and all its
modules are `ping`. So the figures are the cost of Ansible itself, which is what grows with the fleet; what a
host takes to restart and to be judged comes on top once for each wave, however many hosts it has. A line is
fitted through the sizes, and the extrapolation is labelled as one.

Usage: bench_rollout.py [--hosts 16 64] [--settings] (200 hosts: about three minutes on two cores)
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
# Counted in a rollout of one lab host behind a router whose configuration changes (journal and output).
MODULES = 24
TASKS = 55
SHARE = 10
CHOSEN = {"ANSIBLE_FORKS": "64", "ANSIBLE_PIPELINING": "true", "ANSIBLE_STRATEGY": "linear"}
SETTINGS: dict[str, dict[str, str]] = {
    "as chosen (forks 64, pipelining, linear)": {},
    "forks 5": {"ANSIBLE_FORKS": "5"},
    "forks 16": {"ANSIBLE_FORKS": "16"},
    "no pipelining": {"ANSIBLE_PIPELINING": "false"},
    "strategy free": {"ANSIBLE_STRATEGY": "free"},
    "strategy host_pinned": {"ANSIBLE_STRATEGY": "host_pinned"},
}


@dataclass(frozen=True)
class Cost:
    """Of one run with its start: seconds on the clock, and of CPU, that of children included."""

    wall: float
    cpu: float


def playbook(modules: int, tasks: int, facts: bool) -> str:
    """One wave."""
    module = [{"name": f"Module {n}", "ansible.builtin.ping": {}} for n in range(modules)]
    plain = [
        {
            "name": f"Task {n}",
            "ansible.builtin.assert": {"that": "inventory_hostname | length > 0", "quiet": True},
        }
        for n in range(tasks)
    ]
    play = {"name": "Wave", "hosts": "all", "gather_facts": facts, "tasks": [*plain, *module]}
    return yaml.safe_dump([play], sort_keys=False)


def run(folder: Path, hosts: int, modules: int, tasks: int, facts: bool = False, **settings: str) -> Cost:
    """Run one wave over local connections."""
    names = {f"h{number}": None for number in range(hosts)}
    common = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": names, "vars": common}}))
    (folder / "wave.yml").write_text(playbook(modules, tasks, facts))
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(
        [Path(sys.executable).with_name("ansible-playbook"), "-i", folder / "hosts.yml", folder / "wave.yml"],
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), **CHOSEN, **settings},
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(time.monotonic() - began, cpu)


def fitted(points: list[tuple[int, float]]) -> tuple[float, float]:
    """Least squares: (at no host, for each host)."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
    return mean_y - slope * mean_x, slope


def main() -> None:
    """Run it and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, nargs="+", default=[16, 64], help="Sizes of the fleet.")
    parser.add_argument("--settings", action="store_true", help="Compare settings on 16 hosts, too.")
    given = parser.parse_args()
    print(
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; a tenth of a rollout's tasks, times {SHARE}"
    )
    with tempfile.TemporaryDirectory(prefix="treeline-bench-") as name:
        folder = Path(name)
        empty = run(folder, 1, 0, 0)
        walls, cpus = [], []
        for hosts in given.hosts:
            cost = run(folder, hosts, MODULES // SHARE, round(TASKS / SHARE))
            wall, cpu = (cost.wall - empty.wall) * SHARE, (cost.cpu - empty.cpu) * SHARE
            walls.append((hosts, wall))
            cpus.append((hosts, cpu))
            each = f"{cpu / hosts:.2f} s a host"
            print(f"{hosts:5} hosts: {wall:7.1f} s on the clock, {cpu:7.1f} s of CPU ({each})")
        if len(given.hosts) > 1:
            for what, points in (("clock", walls), ("CPU", cpus)):
                fixed, more = fitted(points)
                far = f"1,000 hosts: {fixed + 1000 * more:.0f} s (extrapolated)"
                print(f"{what}: {fixed:.1f} s + {more:.3f} s a host; {far}")
        if given.settings:
            for label, settings in SETTINGS.items():
                cost = run(folder, 16, 2, 5, **settings)
                print(f"16 hosts, {label}: {cost.wall:.1f} s, {cost.cpu:.1f} s of CPU")
            cost = run(folder, 16, 2, 5, facts=True)
            print(f"16 hosts, facts gathered: {cost.wall:.1f} s, {cost.cpu:.1f} s of CPU")


if __name__ == "__main__":
    main()
