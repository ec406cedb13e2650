"""Every bad input ends before a host is touched: the inventory here names a host that nobody can reach."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from harness import finish, playbook_command

CASES: list[tuple[dict[str, Any], list[str]]] = [
    ({"budget": "abc"}, ["budget", "'abc'", "whole number"]),
    ({"budget": "0"}, ["budget", "'0'"]),
    ({"budget": "8", "topk": "-1"}, ["topk", "'-1'"]),
    ({"budget": "8", "maxreq": ""}, ["maxreq", "''"]),
    ({"budget": "8,x,16"}, ["budget", "x"]),
    ({"budgte": "8"}, ["budgte", "budget"]),
    ({"budget": "8", "engine_dialect": "klingon"}, ["engine_dialect", "klingon", "field"]),
    ({"budget": "8", "plan": "magic"}, ["plan", "magic", "grid"]),
    ({"budget": "8", "graphs": "maybe"}, ["graphs", "maybe", "both"]),
    ({"budget": "8", "concurrency": "0"}, ["concurrency", "'0'"]),
    ({"points": "no-such-file.csv"}, ["points", "no-such-file.csv"]),
    ({}, ["budget"]),
]


def run(
    inventory: Path, given: dict[str, Any], tmp_path: Path, **environ: str
) -> subprocess.CompletedProcess[str]:
    asked = {"treeline_results_dir": str(tmp_path / "results"), **given}
    return finish(playbook_command("sweep.yml", inventory, asked), **environ)


@pytest.fixture
def nowhere(tmp_path: Path) -> Path:
    path = tmp_path / "hosts.yml"
    path.write_text(
        "all: {children: {sglang: {hosts: {nowhere: {ansible_host: 127.0.0.1, ansible_port: 1}}}}}\n"
    )
    return path


@pytest.mark.parametrize(("given", "expected"), CASES, ids=[json.dumps(case[0]) for case in CASES])
def test_refused_before_any_host_is_touched(
    given: dict[str, Any], expected: list[str], nowhere: Path, tmp_path: Path
) -> None:
    done = run(nowhere, given, tmp_path)
    assert done.returncode not in (0, 4), done.stdout
    assert "UNREACHABLE" not in done.stdout
    assert "Traceback" not in done.stdout
    for text in expected:
        assert text in done.stdout, done.stdout
    assert not list((tmp_path / "results").glob("*/trials.jsonl"))


def test_a_missing_group_is_named(tmp_path: Path) -> None:
    inventory = tmp_path / "hosts.yml"
    inventory.write_text("all: {hosts: {somebody: {}}}\n")
    done = run(inventory, {"budget": "8"}, tmp_path)
    assert done.returncode != 0
    assert "sglang" in done.stdout
    assert "Traceback" not in done.stdout


def test_an_unreachable_host_is_an_event_not_a_trial(nowhere: Path, tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    done = run(nowhere, {"budget": "8"}, tmp_path, TREELINE_EVENTS_FILE=str(events))
    assert done.returncode == 4, done.stdout
    assert [json.loads(line)["kind"] for line in events.read_text().splitlines()] == ["unreachable"]
    assert not list((tmp_path / "results").glob("*/trials.jsonl"))
