"""The stored baseline: written once from a good trial, found by provenance, never taken for another's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from treeline import baselines
from treeline.baselines import Baseline, BaselineError
from treeline.gates import LIMITS
from treeline.jsonl import StoreError
from treeline.keys import RestartKey
from treeline.records import Finished, Provenance, Times
from treeline.steps import Steps

HERE = Provenance(
    hardware_class="8x NVIDIA B300",
    engine="sglang",
    engine_build="0.5.23+git.93e9850e",
    model="/models/Kimi-K2.6",
    driver="580.95",
)
OFF = RestartKey(budget=0, topk=1, maxreq=32, block_size=8, graphs=True)


def line(**changes: Any) -> Finished:
    values: dict[str, Any] = {
        "trial_id": "s-0001",
        "sweep_id": "s",
        "item_id": "i",
        "cell": OFF.slug,
        "purpose": "baseline",
        "ordinal": 1,
        "host": "gpu1",
        "hardware_class": HERE.hardware_class,
        "key": OFF,
        "at": "2026-01-01T00:00:00.000Z",
        "status": "ok",
        "effect": "good",
        "kind": "none",
        "times": Times(started_at="2026-01-01T00:00:00.000Z"),
        "throughput": {"1": 133.0, "32": 1500.0, "32@4096": None},
    }
    return Finished(**{**values, **changes})


def steps(**server_info: Any) -> Steps:
    load = {
        "outcome": "done",
        "canaries": [
            {"id": "a", "phase": "single", "ok": True, "expect": "x", "got": "x"},
            {"id": "a", "phase": "busiest", "ok": False, "expect": "x", "got": "y"},
            {"id": "b", "phase": "busiest", "ok": True, "expect": "z", "got": "z"},
            {"id": "c", "phase": "busiest", "ok": False, "expect": "z", "got": None, "error": "reset"},
        ],
        "coding": [
            {"id": "a", "phase": "single", "outcome": "passed"},
            {"id": "a", "phase": "busiest", "outcome": "failed"},
            {"id": "b", "phase": "busiest", "outcome": "not available"},
        ],
        "samples": [
            {
                "id": "s1",
                "prompt_sha256": "p",
                "tokens": [1, 2],
                "margins": [3.0, None],
                "text": "t",
                "error": None,
            },
            {"id": "s2", "prompt_sha256": "p", "tokens": None, "error": "answered 500"},
            {"id": "s3", "prompt_sha256": "p", "tokens": ["not a number"]},
        ],
        "points": [
            {"concurrency": 1, "garble": {"looping": {"count": 1, "of": 8}}},
            {"concurrency": 32, "garble": {"looping": {"count": 4, "of": 16}}},
            {"concurrency": 8, "garble": {"flagged": 0, "of": 8}},
        ],
    }
    return Steps.of({"load": load, "ready": {"server_info": server_info}})


def made(**changes: Any) -> Baseline:
    return msgspec.structs.replace(baselines.of_trial(line(), steps(), HERE), **changes)


def test_a_good_baseline_trial_becomes_one() -> None:
    found = made()
    assert found.throughput == {"1": 133.0, "32": 1500.0}
    assert (found.looping_share, found.exact, found.trial_id) == (0.25, False, "s-0001")
    assert found.coding == {"a": False}
    assert [one.id for one in found.samples] == ["s1"]
    assert found.samples[0].margins == (3.0, None)
    assert set(found.canaries) == {"a", "b"}


def test_a_point_with_few_long_outputs_does_not_say_how_often_it_loops() -> None:
    """One that loops of one would allow every later trial to loop always."""
    few, enough = ({"garble": {"looping": {"count": 1, "of": of}}} for of in (1, LIMITS.outputs))

    def share(*points: dict[str, Any]) -> float | None:
        load = {"outcome": "done", "points": [{"concurrency": 1, **point} for point in points]}
        return baselines.of_trial(line(), Steps.of({"load": load}), HERE).looping_share

    assert share(few) is None
    assert share(few, enough) == 1 / LIMITS.outputs


def test_answers_are_looked_up_by_phase_and_expectation() -> None:
    found = made()
    asked = {"id": "a", "expect": "x"}
    assert found.verdict_on(asked, "single") is True
    assert found.verdict_on(asked, "busiest") is False
    assert found.verdict_on({"id": "b", "expect": "z"}, "single") is True  # asked at the busiest point only
    assert found.verdict_on({"id": "b", "expect": "changed"}, "busiest") is None
    assert found.verdict_on({"id": "nobody", "expect": "x"}, "busiest") is None
    assert not found.was_right(asked, "busiest")


@pytest.mark.parametrize(
    ("info", "engine", "exact"),
    [
        ({"dtype": "float32"}, "sglang", True),
        ({"dtype": "bfloat16"}, "sglang", False),
        ({}, "sglang", False),
        ({"engine": "reference", "dtype": "auto"}, None, True),
    ],
)
def test_whether_arithmetic_rounds(info: dict[str, Any], engine: str | None, exact: bool) -> None:
    here = msgspec.structs.replace(HERE, engine=engine)
    assert baselines.of_trial(line(), steps(**info), here).exact is exact


@pytest.mark.parametrize(
    ("changes", "provenance", "words"),
    [
        ({"purpose": "explore"}, HERE, "to explore, no baseline"),
        ({"key": RestartKey(budget=8, topk=4, maxreq=8, block_size=8, graphs=True)}, HERE, "no baseline"),
        ({"status": "garbled"}, HERE, "ended as garbled"),
        ({}, msgspec.structs.replace(HERE, engine_build=None), "does not say its hardware class"),
    ],
)
def test_nothing_else_becomes_one(changes: dict[str, Any], provenance: Provenance, words: str) -> None:
    with pytest.raises(BaselineError, match=words):
        baselines.of_trial(line(**changes), steps(), provenance)


def test_it_is_written_once_and_found_again(tmp_path: Path) -> None:
    assert baselines.find(tmp_path, HERE) is None
    first = made()
    assert baselines.store(tmp_path, first)
    assert baselines.find(tmp_path, HERE) == first
    assert not baselines.store(tmp_path, made(trial_id="s-0002"))
    assert baselines.find(tmp_path, HERE) == first
    path = baselines.path_of(tmp_path, HERE)
    assert path is not None
    assert path.parent.parent == tmp_path / "baselines"
    assert "--" in path.name
    assert json.loads(path.read_text())["schema_version"] == 1


@pytest.mark.parametrize("name", ["hardware_class", "engine_build", "model", "driver", "engine"])
def test_another_provenance_finds_nothing(tmp_path: Path, name: str) -> None:
    baselines.store(tmp_path, made())
    other = msgspec.structs.replace(HERE, **{name: "another"})
    assert baselines.find(tmp_path, other) is None
    if name not in ("driver", "engine"):
        assert (
            baselines.find(
                tmp_path, msgspec.structs.replace(HERE, **{name: "" if name == "hardware_class" else None})
            )
            is None
        )


def test_another_driver_replaces_it_and_an_unknown_one_excludes_nothing(tmp_path: Path) -> None:
    baselines.store(tmp_path, made())
    assert baselines.find(tmp_path, msgspec.structs.replace(HERE, driver=None)) is not None
    assert baselines.store(tmp_path, made(driver="590.1", trial_id="s-0009"))
    assert baselines.find(tmp_path, HERE) is None
    assert baselines.find(tmp_path, msgspec.structs.replace(HERE, driver="590.1")) is not None


@pytest.mark.parametrize("content", ["{", "[]", '{"schema_version": 1}'])
def test_a_damaged_file_is_named_and_measured_again(tmp_path: Path, content: str) -> None:
    path = baselines.path_of(tmp_path, HERE)
    assert path is not None
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(BaselineError, match=r"is damaged .*remove it"):
        baselines.find(tmp_path, HERE)
    assert baselines.store(tmp_path, made())
    assert baselines.find(tmp_path, HERE) == made()


def test_fields_of_a_newer_version_are_accepted(tmp_path: Path) -> None:
    baselines.store(tmp_path, made())
    path = baselines.path_of(tmp_path, HERE)
    assert path is not None
    path.write_text(json.dumps({**json.loads(path.read_text()), "later": [1]}))
    assert baselines.find(tmp_path, HERE) == made()


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "baselines").write_text("a file")
    with pytest.raises(StoreError, match="cannot be made"):
        baselines.store(tmp_path, made())


@given(st.text(max_size=200), st.text(max_size=200))
def test_names_stay_inside_their_folder_and_apart(one: str, other: str) -> None:
    root = Path("/results")

    def path(build: str) -> Path | None:
        return baselines.path_of(root, Provenance(hardware_class="h", engine_build=build, model="m"))

    first, second = path(one), path(other)
    assert (first is None) == (one == "")
    if first and second:
        assert first.parent == second.parent == root / "baselines/h"
        assert len(first.name.encode()) < 200
        assert (first == second) == (one == other)


def test_speedups_are_ratios_of_points_that_both_have() -> None:
    found = baselines.speedups(made(), {"1": 303.0, "32": None, "128": 4723.0, "32@4096": 10.0})
    assert found == {"1": 2.2782}
    assert "no baseline" in baselines.without("auto")
    assert "baseline=skip" in baselines.without("skip")
