"""The JUnit file: one case a host and task or trial, from real runs of any kind, and no harm to the run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from junitparser import JUnitXml, TestCase
from plays import INVENTORY, SWEEP, play, settings, stand_ins
from treeline.events import Place, describe
from treeline.junit_cases import Cases

DEPLOY = """
- name: Deploy
  hosts: near
  gather_facts: false
  tasks:
    - name: Fine
      ansible.builtin.ping:
    - name: Not wanted
      ansible.builtin.ping:
      when: false
    - name: Its journal
      ansible.builtin.fail:
        msg: |-
          sglang.service did not answer. Its last lines:
          [2026-05-02 08:00:05 TP1] Capture cuda graph begin. This can take up to several minutes.
          [2026-05-02 08:00:07 TP1] Scheduler hit an exception: Traceback (most recent call last):
          torch.AcceleratorError: CUDA error: misaligned address
    - name: Never reached
      ansible.builtin.ping:
"""


def cases(path: Path) -> dict[tuple[str, str], TestCase]:
    document = JUnitXml.fromfile(str(path))
    found = {(case.classname, case.name): case for suite in document for case in suite}
    assert len(found) == sum(len(list(suite)) for suite in document)
    return found


def outcome(case: TestCase) -> tuple[str, str | None] | None:
    """Tag and type of a case's result, None where it passed."""
    return next(((result._tag, result.type) for result in case.result), None)


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("deploy")
    done = play(folder, DEPLOY, TREELINE_JUNIT_FILE=str(folder / "out" / "junit.xml"))
    return folder / "out" / "junit.xml", done


def test_a_failed_deploy(deployed: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    path, done = deployed
    assert done.returncode == 2, done.stdout + done.stderr
    assert (
        "failed misaligned in graph_capture (task 'Its journal'; basis: journal lines in the" in done.stdout
    )
    document = JUnitXml.fromfile(str(path))
    (suite,) = document
    assert suite.name == "play.yml: Deploy"
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (3, 1, 0, 1)
    of = cases(path)
    assert list(of) == [("near", "Fine"), ("near", "Not wanted"), ("near", "Its journal")]
    assert outcome(of["near", "Fine"]) is None
    assert outcome(of["near", "Not wanted"]) == ("skipped", None)
    failed = of["near", "Its journal"]
    assert outcome(failed) == ("failure", "misaligned")
    text = failed.result[0].text
    assert "phase: graph_capture" in text
    assert "basis: journal lines in the task message" in text
    assert "first_error: torch.AcceleratorError: CUDA error: misaligned address" in text
    assert [path.name for path in path.parent.iterdir()] == ["junit.xml"], "nothing unfinished is left"


def test_ignored_and_rescued_failures_are_no_failures(run: tuple[Path, str, list[dict[str, Any]]]) -> None:
    path = run[0] / "junit.xml"
    of = cases(path)
    assert outcome(of["near", "Engine dies"]) is None
    assert "illegal_address" in of["near", "Engine dies"].system_out
    assert outcome(of["near", "Retried"]) is None
    assert "retry 1 of 2" in of["near", "Retried"].system_out
    assert outcome(of["near", "Broken handler"]) == ("failure", "unknown")
    assert outcome(of["away", "Ask it"]) is None
    assert "hunter2" not in path.read_text(encoding="utf-8")


def test_a_trial_is_one_case(tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    play(
        tmp_path,
        SWEEP,
        "-e",
        f"folder={tmp_path}",
        ANSIBLE_ACTION_PLUGINS=stand_ins(tmp_path),
        TREELINE_JUNIT_FILE=str(path),
    )
    of = cases(path)
    assert ("localhost", "Ready") not in of
    trial = of["localhost", "trial t-0001"]
    assert outcome(trial) == ("failure", "illegal_address")
    assert "basis: record of the trial" in trial.result[0].text
    assert "phase: graph_capture" in trial.result[0].text
    assert outcome(of["localhost", "trial t-0002"]) == ("error", "no record")


def test_an_ad_hoc_command(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text(INVENTORY.format(python=sys.executable), encoding="utf-8")
    path = tmp_path / "junit.xml"
    script = (
        "echo '[Errno 98] error while attempting to bind on address (x, 3): address already in use'>&2;exit 1"
    )
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("ansible")),
            "near",
            "-i",
            "hosts",
            "-m",
            "ansible.builtin.command",
            "-a",
            f'sh -c "{script}"',
        ],
        cwd=tmp_path,
        env={
            **settings(),
            "ANSIBLE_LOAD_CALLBACK_PLUGINS": "true",
            "TREELINE_JUNIT_FILE": str(path),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "failed port_in_use" in done.stdout, done.stdout + done.stderr
    assert "basis: stderr" in done.stdout
    (case,) = cases(path).values()
    assert outcome(case) == ("failure", "port_in_use")
    assert (tmp_path / "results" / "events.jsonl").exists()


# --- without Ansible ---------------------------------------------------------------------------------------


def _failed(host: str, task: str, **result: Any) -> Any:
    place = Place("p.yml", "P", task, "/p.yml:1", "ansible.builtin.command", host)
    return describe("failed", place, result, event_id="1")


def test_times_states_and_what_xml_cannot_hold(tmp_path: Path) -> None:
    now = [0.0]
    collected = Cases(tmp_path / "j.xml", clock=lambda: now[0])
    collected.task_begins("h", "1", "s", "Bad \x00\x1b[31mname\ufffe")
    now[0] = 2.5
    collected.failure(_failed("h", "Bad", stderr="x\x00\ud800y"), "1")
    collected.trial_begins("h", "t-1", "s")
    collected.task_begins("h", "2", "s", "Inside")
    collected.failure(_failed("h", "Inside", stderr="CUDA out of memory"), "2")
    now[0] = 4.0
    collected.trial_ends("h", {"status": "ok"})
    collected.trial_begins("h", "t-2", "s")
    collected.trial_ends("h", {"status": "void", "class": "xid_bus", "phase": "serving"})
    collected.write()
    of = cases(tmp_path / "j.xml")
    bad, good, void = of.values()
    assert (bad.time, outcome(bad)) == (2.5, ("failure", "unknown"))
    assert (good.name, good.time, outcome(good)) == ("trial t-1", 1.5, None)
    assert "torch_oom" in good.system_out
    assert outcome(void) == ("error", "xid_bus")


def test_an_older_file_is_replaced_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "j.xml"
    path.write_text("<old/>", encoding="utf-8")
    collected = Cases(path)
    collected.task_begins("h", "1", "s", "x")
    monkeypatch.setattr(JUnitXml, "write", lambda *_, **__: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        collected.write()
    assert path.read_text(encoding="utf-8") == "<old/>"
    assert list(tmp_path.iterdir()) == [path]
