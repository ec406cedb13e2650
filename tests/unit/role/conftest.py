"""Run the role's own files through ansible-playbook on this machine, one inventory host per case."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

REPO = Path(__file__).resolve().parents[3]
ROLE = REPO / "roles" / "sglang_ddtree"
PLAYBOOKS = Path(__file__).parent / "playbooks"

Cases = Mapping[str, Mapping[str, Any]]


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Cases], dict[str, Any]]:
    """A function that runs a playbook for all cases at once and returns what it wrote about each."""

    def run(playbook: str, cases: Cases) -> dict[str, Any]:
        out = tmp_path_factory.mktemp("rendered")
        inventory = out / "inventory.yml"
        hosts = {"hosts": {name: dict(variables) for name, variables in cases.items()}}
        common = {"ansible_python_interpreter": sys.executable, "out": str(out), "__said": []}
        inventory.write_text(yaml.safe_dump({"cases": hosts, "all": {"vars": common}}), encoding="utf-8")
        settings = {
            "ANSIBLE_CONFIG": str(REPO / "ansible.cfg"),
            "TREELINE_EVENTS_FILE": str(out / "events.jsonl"),
        }
        done = subprocess.run(
            [Path(sys.executable).parent / "ansible-playbook", "-i", inventory, PLAYBOOKS / playbook],
            env=os.environ | settings,
            cwd=REPO,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-2000:]}"
        found: dict[str, Any] = json.loads((out / "result.json").read_text(encoding="utf-8"))
        return found

    return run
