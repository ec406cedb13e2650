"""One sweep in which every trial meets another fault: each is on record for what it is.

The profile `atlas` lets the budget choose the fault. Both hosts share the points; the last one is a node's
fault, so that each of them ends with it and leaves the sweep. Nothing is repeated for that reason.
One fault of each effect and gate; test_every_profile_long.py has all of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from declared import differences, expected
from harness import ENGINE, Target
from treeline_reference_engine import profiles

ATLAS = profiles.load("atlas")
# By budget. What would fail every trial (kind setup) stops a sweep where it is the first to end.
CRASHES = {1: "cublas-capture", 6: "nccl-watchdog", 7: "segfault", 8: "disk-full"}
SILENT = {10: "collapse", 11: "garbled-fast", 13: "stall", 15: "warm-cache"}
NODE = 16
EVERY = {**CRASHES, **SILENT, NODE: "ecc"}
MAXREQ = 8
NO_TOKEN_S = 10
LOAD_BOUND_S = 120

pytestmark = pytest.mark.timeout(1200)


@dataclass(frozen=True)
class Swept:
    """What the sweep printed and wrote."""

    output: str
    trials: list[dict[str, Any]]
    events: list[dict[str, Any]]

    def first(self, budget: int) -> dict[str, Any]:
        """The first trial at a budget."""
        return next(trial for trial in self.trials if trial["key"]["budget"] == budget)

    def gates(self, budget: int, verdict: str = "failed") -> dict[str, dict[str, Any]]:
        """The gates of a trial with this verdict, by name."""
        return {gate["name"]: gate for gate in self.first(budget)["gates"] if gate["verdict"] == verdict}


def rule_of(budget: int) -> profiles.Rule:
    """The fault that the atlas has at a budget."""
    (rule,) = (rule for rule in ATLAS.rules if rule.when == {"budget": budget})
    return rule


@pytest.fixture(scope="module")
def swept(two_hosts: Target, tmp_path_factory: pytest.TempPathFactory) -> Swept:
    """The sweep over all points, and the proof that both found services are as before."""
    folder = tmp_path_factory.mktemp("atlas")
    target = Target(two_hosts.lab, two_hosts.inventory, two_hosts.hosts, folder / "results")
    points = folder / "points.yml"
    points.write_text(json.dumps([{"budget": one, "topk": 4, "maxreq": MAXREQ} for one in EVERY]))
    before = {host: target.found_state(host) for host in target.hosts}
    output = target.run(
        "sweep.yml",
        expect=2,
        timeout=1100,
        points=str(points),
        concurrency=2,
        treeline_max_tokens=24,
        treeline_no_token_timeout_s=NO_TOKEN_S,
        treeline_load_bound_s=LOAD_BOUND_S,
        sglang_ddtree_extra_args={**ENGINE, "fault-profile": "atlas"},
    )
    assert {host: target.found_state(host) for host in target.hosts} == before
    return Swept(output, target.finished(), target.lines("events.jsonl"))


def proven(trial: Mapping[str, Any]) -> bool:
    """Whether the trial is known to be the one whose life ended."""
    return trial["invocation_id"] not in (None, trial["previous_invocation_id"])


@pytest.mark.parametrize("budget", EVERY, ids=EVERY.values())
def test_each_fault_is_on_record_as_its_profile_declares(swept: Swept, budget: int) -> None:
    rule, trial = rule_of(budget), swept.first(budget)
    assert not differences(trial, expected(rule, MAXREQ))
    assert proven(trial)
    assert set(rule.expect.get("secondary", ())) <= set(trial["secondary"])
    assert trial["evidence"]
    assert trial["advice"]
    assert trial["first_error"]


def test_captured_rows_are_those_of_the_batch_that_failed(swept: Swept) -> None:
    trial = swept.first(1)
    assert (trial["captured_bs"], trial["rows"]) == (MAXREQ, MAXREQ * 2)
    assert "CUBLAS_STATUS_EXECUTION_FAILED" in trial["first_error"]


def test_effects_follow_from_the_kind(swept: Swept) -> None:
    effects = {budget: swept.first(budget)["effect"] for budget in EVERY}
    wanted = dict.fromkeys((1, 10, 11), "bad") | dict.fromkeys((7, 13), "repeat")
    assert effects == wanted | {6: "repeat_transient", 8: "setup", 15: "back", NODE: "node"}


def test_a_cause_without_a_class_still_has_its_line(swept: Swept) -> None:
    assert "Segmentation fault" in swept.first(7)["first_error"]


def test_right_text_without_acceptance_fails_that_gate_alone(swept: Swept) -> None:
    assert set(swept.gates(10)) == {"acceptance"}
    assert {"canaries_single", "canaries_busiest"} <= set(swept.gates(10, "passed"))


def test_nonsense_at_the_usual_acceptance_fails_the_others(swept: Swept) -> None:
    assert "acceptance" in swept.gates(11, "passed")
    assert {"canaries_single", "canaries_busiest", "garbled_pool"} <= set(swept.gates(11))
    assert swept.first(11)["al"] > 2


def test_a_stall_says_that_no_token_came(swept: Swept) -> None:
    trial = swept.first(13)
    assert f"made no token for {NO_TOKEN_S} s" in trial["first_error"]
    assert NO_TOKEN_S <= trial["times"]["load_s"] < LOAD_BOUND_S
    assert "py-spy" in trial["advice"]


def test_prefix_cache_contamination_is_the_reason_that_is_given(swept: Swept) -> None:
    assert "gate prefix_cache" in swept.first(15)["first_error"]
    assert swept.gates(15)["prefix_cache"]["value"] > 0.3
    assert "canaries_busiest" in swept.gates(15, "passed")


def test_both_hosts_leave_with_a_reason(swept: Swept) -> None:
    voids = [trial for trial in swept.trials if trial["key"]["budget"] == NODE]
    assert sorted(trial["host"] for trial in voids) == ["alpha", "beta"]
    for host in ("alpha", "beta"):
        line = f"[{host}] does no more trials in this run: its hardware or driver failed (void ecc:"
        assert line in " ".join(swept.output.split())


def test_the_terminal_and_the_events_name_the_class(swept: Swept) -> None:
    lines = [line for line in swept.output.splitlines() if line.startswith("treeline: ")]
    told = {event["trial_id"]: event for event in swept.events if event.get("revises")}
    for budget in CRASHES:
        trial = swept.first(budget)
        said = "cause unknown" if trial["class"] == "unknown" else f"{trial['status']} {trial['class']}"
        assert any(f" {said} in {trial['phase']}" in line for line in lines), (budget, lines)
        event = told[trial["trial_id"]]
        assert [event[name] for name in ("status", "class", "phase")] == [
            trial[name] for name in ("status", "class", "phase")
        ]
        assert event["basis"] == "record of the trial"
