"""On what the class of a failed task rests, whatever the playbook: which part of the result decides."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest
from treeline.events import Place, describe
from treeline.failures import Capture
from treeline.findings import find, journal_of

IMA = "RuntimeError: CUDA error: an illegal memory access was encountered"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB."
STAMP = "2026-05-02T08:00:07+00:00 lab1 python3[4711]: "
JOURNAL = [
    "2026-05-02T08:00:00+00:00 lab1 systemd[1]: Started sglang.service - SGLang.",
    f"{STAMP}[2026-05-02 08:00:05 TP0] Load weight begin. avail mem=138.00 GB",
    f"{STAMP}[2026-05-02 08:00:07 TP0] Scheduler hit an exception: Traceback (most recent call last):",
    f"{STAMP}{OOM}",
    "2026-05-02T08:00:08+00:00 lab1 systemd[1]: sglang.service: Failed with result 'signal'.",
]


def packed(lines: list[str]) -> str:
    return base64.b64encode(gzip.compress("\n".join(lines).encode())).decode()


@pytest.mark.parametrize(
    ("result", "class_", "basis"),
    [
        ({"msg": "non-zero return code", "stderr": IMA}, "illegal_address", "stderr"),
        ({"msg": f"it said: {OOM}", "stderr": ""}, "torch_oom", "task message"),
        ({"msg": "MODULE FAILURE", "module_stdout": IMA}, "illegal_address", "stdout of the module"),
        ({"msg": "x", "exception": f"Traceback:\n{IMA}"}, "illegal_address", "traceback"),
        ({"msg": "x", "stderr": OOM, "stdout": IMA}, "torch_oom", "stderr"),
        ({"msg": "x", "stdout": "\n".join(JOURNAL)}, "torch_oom", "journal lines in the stdout"),
        (
            {"msg": f"not ready. Its last lines:\n[2026-05-02 08:00:07 TP0] x\n{IMA}"},
            "illegal_address",
            "journal lines in the task message",
        ),
        ({"msg": "x", "journal": packed(JOURNAL)}, "torch_oom", "journal lines in the result"),
        ({"msg": "x", "journal": "\n".join(JOURNAL)}, "torch_oom", "journal lines in the result"),
        ({"msg": "x", "journal_tail": JOURNAL, "stderr": IMA}, "torch_oom", "journal lines in the result"),
        (
            {"msg": "one or more items failed", "results": [{"rc": 0}, {"failed": True, "stderr": IMA}]},
            "illegal_address",
            "stderr of an item",
        ),
        ({"msg": "no", "stderr": "no"}, "unknown", "no known class in stderr and task message"),
        ({"rc": 1}, None, "the result has no text"),
        ({"msg": "x", "stderr": IMA, "censored": "hidden"}, None, "hidden by no_log"),
        ({"msg": "no route", "unreachable": True}, None, "the host did not answer"),
    ],
)
def test_the_part_that_decides_is_named(result: dict[str, Any], class_: str | None, basis: str) -> None:
    finding, said = find(result, "ansible.builtin.command")
    assert (finding.class_ if finding else None, said) == (class_, basis)


def test_a_journal_gives_the_phase_too() -> None:
    finding, _ = find({"journal": packed(JOURNAL)}, "ansible.builtin.command")
    assert finding is not None
    assert (finding.phase, finding.rank, finding.kind) == ("weights", 0, "config")
    assert finding.first_error == OOM


def test_a_verdict_that_an_action_of_ours_brings_is_taken_over() -> None:
    brought = {"class": "xid_bus", "phase": "serving", "kind": "node", "msg": "x", "stderr": IMA}
    finding, basis = find(brought, "treeline_rollout")
    assert finding is not None
    assert (finding.class_, finding.kind, basis) == ("xid_bus", "node", "verdict in the result")
    finding, basis = find({"class": "xid_bus", "stderr": IMA}, "somebody.elses.module")
    assert (finding and finding.class_, basis) == ("illegal_address", "stderr")


@pytest.mark.parametrize(
    "value",
    ["", "%%%", base64.b64encode(b"not gzip").decode(), packed(JOURNAL)[:60], 3, None],
    ids=["empty", "no base64", "no gzip", "cut short", "a number", "nothing"],
)
def test_a_journal_that_cannot_be_unpacked_harms_nothing(value: Any) -> None:
    finding, _ = find({"journal": value, "stderr": OOM}, "ansible.builtin.command")
    assert finding is not None
    assert finding.class_ == "torch_oom"


def test_a_packed_journal_is_bounded() -> None:
    assert journal_of({"journal": ["", ""]}) is None
    bomb = base64.b64encode(gzip.compress(b"\0" * (80 << 20))).decode()
    (line,) = journal_of({"journal": bomb}) or []
    assert len(line) == 64 << 20


def test_the_journal_of_an_ill_service_explains_the_task_that_says_so() -> None:
    said: list[str] = []
    capture = Capture(_log(), said.append)
    place = Place("rollout.yml", "Roll out", "Look at the service", "", "treeline_health", "lab1")
    ill = {"healthy": False, "journal": packed(JOURNAL)}
    capture.success("treeline_health", "lab1", ill, place)
    says = Place("rollout.yml", "Roll out", "Must be healthy", "", "ansible.builtin.assert", "lab1")
    capture.failure("failed", says, {"msg": "Assertion failed"}, task_id="a")
    assert "failed torch_oom in weights" in said[-1]
    assert "basis: journal lines that task 'Look at the service' returned" in said[-1]

    copies = Place("rollout.yml", "Roll out", "Copy", "", "ansible.builtin.copy", "lab1")
    capture.failure("failed", copies, {"msg": "no such file"}, task_id="b")
    assert "cause unknown" in said[-1], "a task of its own has its own reasons"
    other = Place("rollout.yml", "Roll out", "Must be healthy", "", "ansible.builtin.assert", "lab2")
    capture.failure("failed", other, {"msg": "Assertion failed"}, task_id="c")
    assert "cause unknown" in said[-1], "another host has another journal"
    capture.success("treeline_health", "lab1", {"healthy": True, "journal": packed(JOURNAL)}, place)
    capture.failure("failed", says, {"msg": "Assertion failed"}, task_id="d")
    assert "cause unknown" in said[-1]


def test_an_event_keeps_the_finding_in_full() -> None:
    event = describe("failed", _place(), {"stderr": IMA}, event_id="1")
    assert event.finding is not None
    assert event.finding.advice
    assert event.finding.references
    assert describe("failed", _place(), {"stderr": "no"}, event_id="1").finding is None
    import msgspec

    written = json.loads(msgspec.json.encode(event))
    assert written["finding"]["class"] == written["class"] == "illegal_address"


def _place() -> Place:
    return Place("deploy.yml", "Deploy", "Start it", "/x/d.yml:9", "ansible.builtin.command", "lab1")


def _log() -> Any:
    from treeline.events import EventLog

    return EventLog()
