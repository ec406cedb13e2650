"""The callback plugin under a real ansible-playbook: what it writes, what it prints, what it must not do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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


def play(
    folder: Path, playbook: str, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a playbook that lies in `folder` with the repository's configuration."""
    (folder / "play.yml").write_text(playbook, encoding="utf-8")
    (folder / "hosts").write_text(INVENTORY.format(python=sys.executable), encoding="utf-8")
    return subprocess.run(
        [str(Path(sys.executable).with_name("ansible-playbook")), "play.yml", "-i", "hosts", *arguments],
        cwd=folder,
        env={
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "1",
            "_ANSIBLE_CALLBACK_DISPATCH_ERROR_BEHAVIOR": "error",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, list[dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("callback")
    done = play(folder, PLAYBOOK)
    assert "Unexpected Exception" not in done.stdout + done.stderr, done.stdout + done.stderr
    assert "Callback dispatch" not in done.stderr, done.stderr
    return folder, done.stdout, lines(folder / "results" / "events.jsonl")


def of(events: list[dict[str, Any]], task: str, kind: str = "failed") -> list[dict[str, Any]]:
    return [event for event in events if event["task"] == task and event["kind"] == kind]


def test_a_failure_carries_class_basis_and_place(run: tuple[Path, str, list[dict[str, Any]]]) -> None:
    folder, output, events = run
    (event,) = of(events, "Engine dies")
    assert event["class"] == "illegal_address"
    assert event["basis"] == "text of the task's result"
    assert event["rescued"] is True
    assert event["ignored"] is False
    assert event["host"] == "near"
    assert event["play"] == "Everything that can go wrong"
    assert event["playbook"] == "play.yml"
    assert event["task_path"].startswith(str(folder / "play.yml"))
    assert event["schema_version"] == 1
    assert "treeline: near: failed illegal_address (task 'Engine dies', rescued):" in output


def test_a_failure_in_a_rescue_section_is_not_rescued(run: tuple[Path, str, list[dict[str, Any]]]) -> None:
    (event,) = of(run[2], "Fails in the rescue section")
    assert event["rescued"] is False
    assert event["ignored"] is True


def test_every_retry_is_kept_and_the_first_is_printed(run: tuple[Path, str, list[dict[str, Any]]]) -> None:
    _, output, events = run
    assert [event["attempt"] for event in of(events, "Retried", "retry")] == [1, 2]
    assert len(of(events, "Retried")) == 1
    assert output.count("treeline: near: retry 1 of 2 (task 'Retried'") == 1
    assert "treeline: near: retry 2 of 2" not in output


def test_loop_items_and_the_loop(run: tuple[Path, str, list[dict[str, Any]]]) -> None:
    (item,) = of(run[2], "Looped", "item_failed")
    assert item["item"] == "3"
    assert len(of(run[2], "Looped")) == 1


def test_no_log_is_never_read(run: tuple[Path, str, list[dict[str, Any]]]) -> None:
    folder, output, events = run
    (event,) = of(events, "Secret")
    assert event["msg"] == "hidden (no_log)"
    assert event["basis"] == "no log: message only"
    assert "hunter2" not in output + (folder / "results" / "events.jsonl").read_text()


def test_async_handler_unreachable_and_soft_tasks(run: tuple[Path, str, list[dict[str, Any]]]) -> None:
    _, output, events = run
    (asynchronous,) = of(events, "Async")
    assert asynchronous["async_job_id"]
    (handler,) = of(events, "Broken handler")
    assert handler["handler"] is True
    assert handler["rescued"] is None
    assert "treeline: near: failed (handler 'Broken handler'):" in output
    (unreachable,) = of(events, "Ask it", "unreachable")
    assert unreachable["host"] == "away"
    assert unreachable["ignored"] is True
    assert not of(events, "Soft")


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


def test_a_sweep_gets_its_events_and_trials_their_class(tmp_path: Path) -> None:
    actions = tmp_path / "actions"
    actions.mkdir()
    for name in ("sweep", "claim", "ready", "record"):  # stand-ins that return their arguments
        (actions / f"treeline_{name}.py").write_text(ECHO, encoding="utf-8")
    (tmp_path / "sweep").mkdir()
    done = play(tmp_path, SWEEP, "-e", f"folder={tmp_path}", ANSIBLE_ACTION_PLUGINS=str(actions))
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (tmp_path / "results").exists()
    before, first, verdict, second = lines(tmp_path / "sweep" / "events.jsonl")
    assert before["task"] == "Before the sweep is open"
    assert before["trial_id"] is None
    assert (first["trial_id"], first["class"]) == ("t-0001", None)
    assert first["fields"] == {"outcome": "died", "exec_main_status": 9}
    assert (verdict["status"], verdict["class"], verdict["phase"]) == (
        "crash",
        "illegal_address",
        "graph_capture",
    )
    assert verdict["revises"] == first["event_id"]
    assert second["trial_id"] == "t-0002"
    assert (
        "localhost: crash illegal_address in graph_capture (task 'Ready', ignored): RuntimeError: x"
        in done.stdout
    )
    assert done.stdout.count("(task 'Ready'") == 1
    assert "localhost: failed (task 'Ready again', ignored): not ready" in done.stdout


def test_the_file_can_be_chosen_and_quiet_prints_nothing(tmp_path: Path) -> None:
    chosen = tmp_path / "elsewhere" / "e.jsonl"
    playbook = SWEEP.split("    - name: Open")[0]
    done = play(tmp_path, playbook, TREELINE_EVENTS_FILE=str(chosen), TREELINE_FAILURES_QUIET="true")
    assert [event["kind"] for event in lines(chosen)] == ["failed"]
    assert "treeline:" not in done.stdout
    assert not (tmp_path / "results").exists()


def test_a_file_that_cannot_be_written_costs_no_play(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    playbook = SWEEP.split("    - name: Open")[0]
    done = play(tmp_path, playbook, TREELINE_EVENTS_FILE=str(tmp_path / "file" / "e.jsonl"))
    assert done.returncode == 0, done.stdout + done.stderr
    said = " ".join((done.stdout + done.stderr).split())
    assert "1 failure events could not be written" in said


def test_ansible_doc_knows_the_plugin() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).with_name("ansible-doc")), "-t", "callback", "treeline_failures"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "events_file" in done.stdout
    assert "TREELINE_EVENTS_FILE" in done.stdout
