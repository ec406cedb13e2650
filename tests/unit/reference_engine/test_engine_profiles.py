"""Fault profiles: the field's table, and the schema's refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from treeline_reference_engine import profiles
from treeline_reference_engine.cli import build_parser
from treeline_reference_engine.scheduler_process import measured
from treeline_reference_engine.server_args import ServerArgs, resolve


def _args(budget: int | None, topk: int = 8, maxreq: int = 64, *more: str) -> ServerArgs:
    line = ["--model-path", "m", "--max-running-requests", str(maxreq), *more]
    if budget is not None:
        line += ["--speculative-algorithm", "DDTREE", "--speculative-ddtree-budget", str(budget)]
        line += ["--speculative-ddtree-topk", str(topk)]
    return resolve(build_parser().parse_args(line))


OFF = "--disable-cuda-graph"


@pytest.mark.parametrize(
    ("args", "rows", "kind", "extrapolated"),
    [
        (_args(8, 4, 128), 1152, None, False),
        (_args(8, 4, 256), 2304, "cublas_execution_failed", False),
        (_args(16, 8, 128), 2176, "cublas_execution_failed", False),
        (_args(16, 8, 64), 1088, "illegal_address", False),
        (_args(32, 8, 32), 1056, "garbled", False),
        (_args(16, 8, 64, OFF), 1088, None, False),
        (_args(64, 8, 16), 1040, "garbled", True),
        (_args(None, 8, 256), 256, None, False),
        (_args(8, 4, 256, "--cuda-graph-max-bs-decode", "32"), 288, None, False),
    ],
)
def test_the_field_table(args: ServerArgs, rows: int, kind: str | None, extrapolated: bool) -> None:
    rule = profiles.load("b300-kimi-k26").match(args)
    assert profiles.facts_of(args)["rows"] == rows
    assert (rule.fault.kind if rule else None) == kind
    assert (rule.extrapolated if rule else False) == extrapolated
    if rule is not None and rule.fault.crash:
        assert rule.fault.phase == "graph_capture"


def test_step_times_are_the_fields() -> None:
    timing = profiles.load("b300-kimi-k26").timing
    assert 4.5 / timing.step_s(9, True, True) == pytest.approx(303, rel=0.01)
    assert 128 * 4.5 / timing.step_s(1152, True, True) == pytest.approx(4723, rel=0.01)
    assert 1 / timing.step_s(1, False, True) == pytest.approx(133, rel=0.01)
    for rows in (1, 9, 100, 1152):
        assert timing.step_s(rows, True, False) > timing.step_s(rows, True, True)


def test_startup_takes_six_minutes() -> None:
    startup = profiles.load("b300-kimi-k26").startup
    assert sum(vars(startup).values()) == pytest.approx(360)


@pytest.mark.parametrize("name", profiles.names())
def test_packaged_profiles_load(name: str) -> None:
    assert profiles.load(name).name == name


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"rule": []}, "'rule' is not known"),
        ({"rules": [{"when": {"bugdet": 3}, "fault": {"kind": "hang"}}]}, "when: 'bugdet' is not known"),
        ({"rules": [{"when": {"rows": {"over": 3}}, "fault": {"kind": "hang"}}]}, "'over' is not known"),
        ({"rules": [{"fault": {"kind": "boom"}}]}, "fault.kind: 'boom' is not one of"),
        ({"rules": [{"fault": {"kind": "hang", "phase": "lunch"}}]}, "fault.phase: 'lunch'"),
        ({"hardware": {"timing": {}}}, "hardware:"),
        ({"hardware": "no-such"}, "no-such.yml"),
    ],
)
def test_refusals_name_the_place(data: dict[str, Any], message: str) -> None:
    with pytest.raises(profiles.ProfileError, match=message):
        profiles.parse(data, "here")


def test_no_two_lives_have_room_for_quite_the_same_number_of_tokens() -> None:
    profile = profiles.load("none")
    most = profile.memory.max_total_num_tokens
    seen = {measured(profile).memory.max_total_num_tokens for _ in range(50)}
    assert len(seen) > 10
    assert all(most - 512 < tokens <= most for tokens in seen)


def test_profile_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    rule = {"name": "one", "when": {"budget": [3, 4]}, "fault": {"kind": "garbled"}}
    path.write_text(json.dumps({"name": "mine", "rules": [rule]}))
    profile = profiles.load(str(path))
    assert profile.match(_args(4)) is not None
    assert profile.match(_args(5)) is None


def test_in_the_atlas_the_budget_chooses_another_profiles_fault() -> None:
    atlas = profiles.load("atlas")
    rule = atlas.match(_args(4))
    assert rule is not None
    assert rule.fault == profiles.load("nan-logits").rules[0].fault
    assert rule.expect["class"] == "nan_logits"
    assert atlas.match(_args(9)) is None


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(profiles.ProfileError, match=r"b300-kimi-k26, bad-args, .*xid-recovery\) and no"):
        profiles.load("b200")
