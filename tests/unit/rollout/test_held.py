"""Hosts that a sweep has not given back are no hosts for a rollout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from treeline.rollout.errors import RolloutRefusedError
from treeline.rollout.held import refuse_if_held

FREE = {"hardware_class_hint": "8x B300", "snapshot_present": None, "lease_holder": None}
LEASE = {"host": "control-1", "pid": 4711, "sweep_id": "s-2", "seconds_left": 400.0}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({**FREE, "snapshot_present": "s-1"}, "h2 (sweep s-1)"),
        ({**FREE, "lease_holder": LEASE}, "h2 (sweep s-2)"),
        ({**FREE, "snapshot_present": "s-1", "lease_holder": LEASE, "failed": True}, "h2 (sweep s-1)"),
        ({**FREE, "lease_holder": {"host": "control-1"}}, "h2 (sweep unknown)"),
    ],
)
def test_a_host_that_a_sweep_holds_is_refused_by_name(found: dict[str, Any], said: str) -> None:
    with pytest.raises(RolloutRefusedError, match=r"let it end, or run restore\.yml there") as refused:
        refuse_if_held({"h2": found, "h1": FREE})
    assert said in str(refused.value)
    assert "h1" not in str(refused.value)


def test_free_hosts_and_those_that_were_not_reached_are_not() -> None:
    refuse_if_held({"h1": FREE, "h2": {}, "h3": None})


def test_the_playbook_stops_there_with_nothing_written(tmp_path: Path) -> None:
    ask = {
        "state": "open",
        "results_dir": str(tmp_path / "kept"),
        "config": "best",
        "objective": "throughput@32",
        "waves": "1",
        "max_age_days": 30,
        "hosts": {"h1": FREE, "h2": {**FREE, "snapshot_present": "s-1"}},
    }
    tasks = [{"name": "Begin", "treeline_rollout": ask}]
    playbook = tmp_path / "play.yml"
    playbook.write_text(yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]))
    done = subprocess.run(
        [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "localhost,", str(playbook)],
        env=os.environ | {"ANSIBLE_CONFIG": str(Path(__file__).resolve().parents[3] / "ansible.cfg")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert "a sweep has not given back h2 (sweep s-1): let it end" in " ".join(done.stdout.split())
    assert not (tmp_path / "kept").exists()
