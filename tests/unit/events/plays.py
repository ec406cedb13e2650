"""Playbooks of the tests, and how they are run with the repository's configuration."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]

PLAYBOOK = """
- name: A host that is not there
  hosts: away
  gather_facts: false
  tasks:
    - name: Ask it
      ansible.builtin.ping:
      ignore_unreachable: true

- name: Everything that can go wrong
  hosts: near
  gather_facts: false
  tasks:
    - name: Rescued
      block:
        - name: Engine dies
          ansible.builtin.command:
            argv: [sh, -c, "echo 'CUDA error: an illegal memory access was encountered' >&2; exit 1"]
          changed_when: false
      rescue:
        - name: Fails in the rescue section
          ansible.builtin.command: {argv: ["false"]}
          failed_when: true
          ignore_errors: true
    - name: Retried
      ansible.builtin.command: {argv: ["false"]}
      retries: 2
      delay: 0.01
      ignore_errors: true
    - name: Looped
      ansible.builtin.command: {argv: [sh, -c, "exit {{ item }}"]}
      loop: [0, 3]
      ignore_errors: true
    - name: Secret
      ansible.builtin.command: {argv: [sh, -c, "echo hunter2; exit 1"]}
      no_log: true
      ignore_errors: true
    - name: Async
      ansible.builtin.command: {argv: [sleep, "20"]}
      async: 1
      poll: 1
      ignore_errors: true
    - name: Soft
      ansible.builtin.command: {argv: ["false"]}
      failed_when: false
    - name: Notify
      ansible.builtin.debug: {msg: "colour \\u001b[31mred\\u001b[0m"}
      changed_when: true
      notify: Broken handler
  handlers:
    - name: Broken handler
      ansible.builtin.command: {argv: ["false"]}
"""
INVENTORY = """
near ansible_connection=local ansible_python_interpreter={python}
away ansible_host=127.0.0.1 ansible_port=1 ansible_connection=ssh
"""


def settings() -> dict[str, str]:
    """Return an environment with the repository's configuration, in which an error of ours is one."""
    return {
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_NOCOLOR": "1",
        "_ANSIBLE_CALLBACK_DISPATCH_ERROR_BEHAVIOR": "error",
    }


def play(
    folder: Path, playbook: str, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a playbook that lies in `folder` with the repository's configuration."""
    (folder / "play.yml").write_text(playbook, encoding="utf-8")
    (folder / "hosts").write_text(INVENTORY.format(python=sys.executable), encoding="utf-8")
    return subprocess.run(
        [str(Path(sys.executable).with_name("ansible-playbook")), "play.yml", "-i", "hosts", *arguments],
        cwd=folder,
        env={**settings(), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


SWEEP = """
- name: Sweep
  hosts: localhost
  gather_facts: false
  vars: {ansible_python_interpreter: "{{ ansible_playbook_python }}"}
  tasks:
    - name: Before the sweep is open
      ansible.builtin.command: {argv: ["false"]}
      ignore_errors: true
    - name: Open
      treeline_sweep: {sweep_dir: "{{ folder }}/sweep"}
    - name: Claim
      treeline_claim: {state: item, trial_id: t-0001}
    - name: Ready
      treeline_ready: {failed: true, outcome: died, msg: "the unit died", exec_main_status: 9}
      ignore_errors: true
    - name: Record
      treeline_record:
        record:
          trial_id: t-0001
          status: crash
          class: illegal_address
          phase: graph_capture
          first_error: "RuntimeError: x"
    - name: Claim again
      treeline_claim: {state: item, trial_id: t-0002}
    - name: Ready again
      treeline_ready: {failed: true, outcome: timeout, msg: "not ready"}
      ignore_errors: true
"""
ECHO = """
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        return {**super().run(tmp, task_vars), **self._task.args}
"""


def stand_ins(folder: Path) -> str:
    """Put actions that return their arguments in place of the sweep's own; return their folder."""
    actions = folder / "actions"
    actions.mkdir()
    for name in ("sweep", "claim", "ready", "record"):
        (actions / f"treeline_{name}.py").write_text(ECHO, encoding="utf-8")
    (folder / "sweep").mkdir()
    return str(actions)
