"""What --limit means where localhost decides about all hosts; nobody can reach the hosts here."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import finish, playbook_command

ASKED = {
    "sweep.yml": {"budget": "8"},
    "rollout.yml": {"config": "best"},
    "health.yml": {},
}
INVENTORY = """
all:
  vars: {ansible_host: 127.0.0.1, ansible_port: 1}
  hosts: {router: {}}
  children:
    sglang:
      children:
        near: {hosts: {n1: {}, n2: {}}}
        far: {hosts: {away: {}}}
"""
OPEN = """
- name: Open a rollout of hosts that preflight did not reach
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Open
      treeline_rollout:
        state: open
        results_dir: "{{ treeline_results_dir }}"
        config: best
        objective: throughput@32
        waves: 100 %
        max_age_days: 30
        hosts: {n1: {hardware_class: small}, n2: {}, away: {unreachable: true}}
"""


def play(playbook: str, tmp_path: Path, *flags: str, **environ: str) -> tuple[int, str]:
    """Run a playbook as a user does: its exit code, and what it said with every gap as one space."""
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(INVENTORY)
    given = {"treeline_results_dir": str(tmp_path / "results"), **ASKED.get(playbook, {})}
    done = finish(playbook_command(playbook, inventory, given, *flags), **environ)
    assert "Traceback" not in done.stdout
    return done.returncode, " ".join(done.stdout.split())


@pytest.mark.parametrize("playbook", ASKED)
def test_a_limit_without_localhost_is_refused_instead_of_doing_nothing(playbook: str, tmp_path: Path) -> None:
    code, said = play(playbook, tmp_path, "--limit", "near")
    assert code == 2, said
    assert "--limit 'localhost,n1'" in said
    assert "UNREACHABLE" not in said


@pytest.mark.parametrize("playbook", ASKED)
def test_a_limit_that_leaves_no_host_is_refused(playbook: str, tmp_path: Path) -> None:
    code, said = play(playbook, tmp_path, "--limit", "localhost,router")
    assert code == 2, said
    assert "No host of group sglang is within --limit localhost,router" in said


def test_health_reports_the_hosts_within_the_limit_and_no_other(tmp_path: Path) -> None:
    code, said = play("health.yml", tmp_path, "--limit", "localhost,near")
    assert code == 2, said
    assert "n1: NOT WELL: unreachable" in said
    assert "0 of 2 hosts are well; not well: n1, n2" in said
    assert "away" not in said


def test_health_needs_no_fork_for_each_host(tmp_path: Path) -> None:
    _, said = play("health.yml", tmp_path, ANSIBLE_FORKS="1")
    assert "0 of 3 hosts are well; not well: n1, n2, away" in said


def test_a_sweep_needs_a_fork_for_each_host_within_the_limit(tmp_path: Path) -> None:
    code, said = play("sweep.yml", tmp_path, ANSIBLE_FORKS="2")
    assert code == 2, said
    assert "forks is 2 and 3 hosts take part" in said
    assert "UNREACHABLE" not in said
    code, said = play("sweep.yml", tmp_path, "--limit", "localhost,near", ANSIBLE_FORKS="2")
    assert code == 4, said
    assert "n1 | UNREACHABLE" in said or "[n1]: UNREACHABLE" in said


@pytest.mark.parametrize(
    ("flags", "remedy"),
    [
        ((), "--limit 'sglang,localhost,!away,!n2'"),
        (("--limit", "localhost,near"), "add !away,!n2 to --limit"),
    ],
)
def test_a_rollout_says_how_to_leave_out_hosts_that_were_not_reached(
    flags: tuple[str, ...], remedy: str, tmp_path: Path
) -> None:
    playbook = tmp_path / "open.yml"
    playbook.write_text(OPEN)
    code, said = play(str(playbook), tmp_path, *flags)
    assert code == 2, said
    assert "nothing is known about away, n2" in said
    assert remedy in said
    assert not (tmp_path / "results" / "rollouts").exists()
