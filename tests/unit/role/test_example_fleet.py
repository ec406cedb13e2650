"""inventory/example_fleet: groups from facts, and the unit that each of its hosts would get."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

REPO = Path(__file__).resolve().parents[3]
FLEET = REPO / "inventory/example_fleet"
GPUS = {
    **{f"gpu{number}": ["NVIDIA B300 SXM6 AC"] * 8 for number in range(1, 5)},
    **{f"gpu{number}": ["NVIDIA H200"] * 8 for number in range(5, 9)},
}
RENDER = """
- hosts: sglang
  gather_facts: false
  connection: local
  become: false
  tasks:
    - ansible.builtin.include_role:
        name: sglang_ddtree
        tasks_from: intended.yml
        public: true
    - ansible.builtin.template:
        src: {repo}/roles/sglang_ddtree/templates/sglang-ddtree.service.j2
        dest: {out}/{{{{ inventory_hostname }}}}.service
        mode: "0644"
      vars:
        __sglang_ddtree_is_trial: false
        ansible_become: false
        ansible_python_interpreter: "{{{{ ansible_playbook_python }}}}"
"""


@pytest.fixture
def facts(tmp_path: Path) -> Path:
    """A fact cache as `hardware.yml` leaves it, where every host has the GPUs above."""
    cache = tmp_path / "facts"
    ask(cache, GPUS)
    return cache


def ask(cache: Path, gpus: Mapping[str, Sequence[str]]) -> None:
    """Run `hardware.yml` over hosts whose tool tells of these GPUs; a program on this machine for each."""
    tools = cache.parent / "tools"
    tools.mkdir(exist_ok=True)
    for host, names in gpus.items():
        tool = tools / host
        tool.write_text("#!/bin/sh\n" + "".join(f"echo {shlex.quote(name)}\n" for name in names))
        tool.chmod(0o755)
    given = {
        "ansible_connection": "local",
        "ansible_become": False,
        "ansible_python_interpreter": sys.executable,
        "treeline_gpu_query": f"{tools}/{{{{ inventory_hostname }}}}",
    }
    ansible("ansible-playbook", cache, "hardware.yml", "-e", json.dumps(given))


def ansible(program: str, facts: Path, *arguments: str) -> str:
    done = subprocess.run(
        [Path(sys.executable).with_name(program), "-i", FLEET, *arguments],
        env={
            **os.environ,
            "ANSIBLE_CONFIG": str(REPO / "ansible.cfg"),
            "ANSIBLE_CACHE_PLUGIN": "ansible.builtin.jsonfile",
            "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(facts),
            "TREELINE_EVENTS_FILE": str(facts.parent / "events.jsonl"),
        },
        cwd=REPO,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def listed(facts: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ansible("ansible-inventory", facts, "--list"))
    return found


def test_hosts_are_grouped_by_what_they_say_of_their_gpus(facts: Path) -> None:
    found = listed(facts)
    assert found["hardware_b300"]["hosts"] == ["gpu1", "gpu2", "gpu3", "gpu4"]
    assert found["hardware_h200"]["hosts"] == ["gpu5", "gpu6", "gpu7", "gpu8"]
    assert "hardware_unknown" not in found
    variables = found["_meta"]["hostvars"]
    assert {variables[f"gpu{n}"]["sglang_ddtree_maxreq"] for n in range(1, 5)} == {128}
    assert {variables[f"gpu{n}"]["sglang_ddtree_maxreq"] for n in range(5, 9)} == {64}


def test_a_host_that_changes_its_gpus_changes_its_group_and_one_without_is_unknown(facts: Path) -> None:
    ask(facts, {**GPUS, "gpu4": GPUS["gpu8"], "gpu1": []})
    found = listed(facts)
    assert found["hardware_h200"]["hosts"] == ["gpu4", "gpu5", "gpu6", "gpu7", "gpu8"]
    assert found["hardware_unknown"]["hosts"] == ["gpu1"]
    assert "sglang_ddtree_maxreq" not in found["_meta"]["hostvars"]["gpu1"]


def test_every_host_gets_a_unit_of_its_class_with_its_own_differences(facts: Path, tmp_path: Path) -> None:
    playbook = tmp_path / "render.yml"
    playbook.write_text(RENDER.format(repo=REPO, out=tmp_path), encoding="utf-8")
    ansible("ansible-playbook", facts, str(playbook))
    units = {host: (tmp_path / f"{host}.service").read_text(encoding="utf-8") for host in GPUS}
    assert "--max-running-requests 128" in words(units["gpu1"])
    assert "--max-running-requests 64" in words(units["gpu5"])
    assert "--model-path /mnt/nvme1/Kimi-K2.6 " in words(units["gpu3"])
    assert "--port 30100" in words(units["gpu8"])
    assert "--port 30000" in words(units["gpu7"])
    assert all(f"--host 192.0.2.1{host[3:]} " in words(unit) for host, unit in units.items())
    assert not [host for host, unit in units.items() if "replace-me" in unit]


def words(unit: str) -> str:
    """The unit with its command line on one line and without quotes."""
    return " ".join(unit.replace("\\\n", " ").replace('"', "").split())
