"""What a trial may do in its folder below /run, where that is mounted noexec and the umask of root is 077."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from found_host import BINDS, HOLDER, REPOSITORY, FoundHost
from treeline_lab import Lab

pytestmark = pytest.mark.lab

NAME, ADDRESS = "folder1", "10.66.0.13"
TRIAL = "sglang-ddtree-trial.service"
# What Triton and its like do: put a shared object into the cache, then load it.
LOADS_A_KERNEL = """
import ctypes, os, shutil
library = next(line.split()[-1] for line in open("/proc/self/maps") if "/libc.so" in line)
cache = os.environ["XDG_CACHE_HOME"]
os.makedirs(cache, exist_ok=True)
shutil.copyfile(library, cache + "/kernel.so")
ctypes.CDLL(cache + "/kernel.so")
print("kernel loaded")
for place in ("/run/elsewhere", "/run/treeline/elsewhere", "/var/cache/elsewhere"):
    try:
        open(place, "w")
        print("wrote", place)
    except OSError:
        pass
"""
PLAY = [
    {
        "hosts": "sglang",
        "gather_facts": False,
        "tasks": [
            {
                "name": "Render the trial unit",
                "ansible.builtin.include_role": {"name": "sglang_ddtree", "tasks_from": "trial.yml"},
                "vars": {
                    "sglang_ddtree_trial_id": "t1",
                    "sglang_ddtree_trial_runtime_max_s": 60,
                    "sglang_ddtree_command": ["/usr/bin/python3", "-u", "-c", LOADS_A_KERNEL],
                    "sglang_ddtree_user": "daemon",
                    "sglang_ddtree_group": "daemon",
                },
            }
        ],
    }
]


@pytest.fixture(scope="module")
def lab(make_lab: Callable[[str], Lab]) -> Lab:
    """A lab of our own."""
    lab = make_lab("folder")
    lab.up({NAME: ADDRESS}, binds=BINDS)
    return lab


def test_a_trial_loads_what_it_compiled_and_writes_nowhere_else(lab: Lab, tmp_path: Path) -> None:
    host = FoundHost(lab, NAME)
    assert host.run("mount", "-o", "remount,noexec", "/run").returncode == 0
    lease = {"seconds": 600, "holder": HOLDER}
    taken = {
        "found_units": ["sglang-ddtree.service"],
        "trial_unit": TRIAL,
        "lease": lease,
        "ready_timeout_s": 30,
    }
    # A root whose umask is 077, as hardening guides ask for.
    done = host.run("sh", "-c", 'umask 077; exec "$@"', "-", *host.driver("take", taken))
    assert "result" in json.loads(done.stdout), done.stdout

    playbook = tmp_path / "trial.yml"
    playbook.write_text(yaml.safe_dump(PLAY))
    inventory = lab.write_inventory(tmp_path / "hosts.yml", {NAME: ADDRESS})
    played = subprocess.run(
        [Path(sys.executable).with_name("ansible-playbook"), "-i", inventory, playbook],
        cwd=REPOSITORY,
        env={**os.environ, "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert played.returncode == 0, played.stdout + played.stderr

    def said() -> str:
        return host.run("journalctl", "--quiet", "--output=cat", "--unit", TRIAL).stdout

    host.wait(lambda: "Deactivated successfully" in said() or "Failed" in said(), 20, "the trial ended")
    assert "kernel loaded" in said(), said()
    assert "wrote" not in said(), said()
    assert host.run("stat", "--format=%a", "/run/treeline", "/var/lib/treeline").stdout.split() == [
        "755",
        "755",
    ]
    assert host.run("stat", "--format=%a", "/var/lib/treeline/found.json").stdout.strip() == "600"
