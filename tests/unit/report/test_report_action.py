"""The action treeline_report under a real ansible-playbook."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from sweeps import SweepFolder, item

ROOT = Path(__file__).resolve().parents[3]
PLAYBOOK = """
- name: Report
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Report
      treeline_report:
        sweep_dir: "{{ folder }}"
        width: 120
      register: __report
    - name: Show
      ansible.builtin.debug:
        msg: "{{ __report.trials }} trials, {{ __report.counts }} in {{ __report.csv }}"
"""


def play(folder: Path, sweep: Path) -> subprocess.CompletedProcess[str]:
    (folder / "play.yml").write_text(PLAYBOOK, encoding="utf-8")
    command = [str(Path(sys.executable).with_name("ansible-playbook")), "play.yml", "-i", "localhost,"]
    return subprocess.run(
        [*command, "-e", f"folder={sweep}"],
        cwd=folder,
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_table_is_printed_and_a_missing_sweep_fails_clearly(tmp_path: Path) -> None:
    folder = SweepFolder(tmp_path / "sweep", item(8))
    folder.run(item(8), class_="ok", phase="serving", throughput={"1": 303.0})
    done = play(tmp_path, folder.folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tok/s@1" in done.stdout
    assert "1 trials, {'ok': 1} in" in " ".join(done.stdout.replace("''", "'").split())
    assert (folder.folder / "summary.md").is_file()

    done = play(tmp_path, tmp_path / "nothing")
    assert done.returncode == 2
    assert "nothing/sweep.json cannot be read" in " ".join(done.stdout.split())
