"""Summaries: figures that follow from figures, over service lives."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from field_sweep import anchors, field_notes, frontier, lives
from sweeps import SweepFolder, item
from treeline.frames import summaries
from treeline.frames.course import AuditCount, audits, course
from treeline.frames.results import Results, read
from treeline.keys import Column, Frontier, Known, Load, Plan, Slice
from treeline.store import SweepStore


def points(results: Results) -> pd.DataFrame:
    return summaries.points(results.measurements, results.trials)


def logs(folder: Path) -> list[tuple]:
    return [(SweepStore(folder).read_sweep(), SweepStore(folder).read_trials())]


def test_rates_per_gpu_and_user_and_the_time_of_a_step(tmp_path: Path) -> None:
    row = points(read(field_notes(tmp_path / "s").folder)).iloc[0]
    assert row["tok_s_gpu"] == pytest.approx(303.0 / 8)
    assert row["tok_s_user"] == pytest.approx(1000 / 3.3)
    assert row["ms_step"] == pytest.approx(1000 * 4.5 / 303.0)


@pytest.mark.parametrize(("text", "expected"), [("8x B300", 8), ("2 x H200, 570", 2), ("cpu", 1), ("x86", 1)])
def test_the_number_of_gpus_of_a_hardware_class(text: str, expected: int) -> None:
    assert summaries.gpus(text) == expected


def test_lives_are_the_unit_and_one_life_has_no_interval(tmp_path: Path) -> None:
    results = read(lives(tmp_path / "s", {8: [300.0, 310.0, 305.0], 16: [290.0]}).folder)
    found = summaries.over_lives(summaries.lives(points(results)))
    assert found["n"].tolist() == [3, 1]
    first, second = found.to_dict("records")
    assert first["tok_s"] == pytest.approx(305.0)
    assert first["tok_s_low"] < 300.0 < 310.0 < first["tok_s_high"]
    assert pd.isna(second["tok_s_low"])
    assert summaries.best_per_budget(found)["budget"].tolist() == [8, 16]


def test_positions_come_from_the_histogram(tmp_path: Path) -> None:
    found = summaries.per_position(points(read(field_notes(tmp_path / "s").folder)))
    shares = found[(found["concurrency"] == 1) & (found["budget"] == 8)]["accepted"].tolist()
    assert shares == pytest.approx([0.9, 0.8, 0.65, 0.45, 0.2, 0.1, 0.05])


def test_goodput_is_that_of_points_with_a_service_level(tmp_path: Path) -> None:
    found = summaries.goodput(points(read(field_notes(tmp_path / "s").folder)))
    assert found["goodput"].tolist() == [7.5, 7.5]
    assert found["slo"].unique().tolist() == ["TTFT <= 500 ms, TPOT <= 50 ms"]


def test_anchors_are_told_against_the_first_and_keep_their_order(tmp_path: Path) -> None:
    found = summaries.anchors(points(read(anchors(tmp_path / "s", [100.0, 98.0, 94.0]).folder)))
    assert found["moved"].tolist() == pytest.approx([0.0, -0.02, -0.06])
    assert found["power_w"].isna().all()


def test_the_time_of_a_trial_adds_up(tmp_path: Path) -> None:
    found = summaries.time_budget(read(field_notes(tmp_path / "s").folder).trials)
    assert found.groupby("trial_id")["seconds"].sum().eq(25.0).all()
    assert found[found["part"] == "rest"]["seconds"].eq(6.0).all()


def test_failures_are_counted_by_class(tmp_path: Path) -> None:
    found = summaries.failures(read(field_notes(tmp_path / "s").folder).trials)
    assert found.set_index("class")["trials"].to_dict() == {
        "cublas_execution_failed": 2,
        "silent_corruption": 2,
        "illegal_address": 1,
    }
    assert found.set_index("class").loc["cublas_execution_failed", "rows"] == "2176 to 2304"


def test_the_course_of_a_search_counts_measured_and_implied_cells(tmp_path: Path) -> None:
    folder = frontier(tmp_path / "f").folder
    found = course(logs(folder))
    last = found.iloc[-1]
    assert last["measured"] + last["implied"] == last["cells"] == 20
    assert last["restarts"] < 20
    assert found["restarts"].tolist() == list(range(len(found)))


def test_the_course_knows_what_the_crash_memory_knew(tmp_path: Path) -> None:
    folder = frontier(tmp_path / "f")
    sweep = folder.store.read_sweep()
    sweep.known = {"8x B300": Known(bad={"b8-k8-m128-bs8-g1": "crash"})}
    first = course([(sweep, folder.store.read_trials())]).iloc[0]
    assert (first["restarts"], first["measured"], first["remembered"], first["implied"]) == (0, 0, 1, 0)


def test_an_audit_counts_with_its_repeat(tmp_path: Path) -> None:
    columns = tuple(Column(budget=budget, maxreqs=(16, 32)) for budget in (8, 16))
    part = Slice(topk=8, block_size=8, graphs=True, columns=columns)
    plan = Plan(kind="frontier", items=(), frontier=Frontier(slices=(part,), load=Load(concurrency=(1,))))
    folder = SweepFolder(tmp_path / "s", plan=plan)
    for budget in (8, 16):
        folder.run(item(budget, 32), effect="good")
    folder.run(item(8, 16, purpose="audit"), "crash", effect="repeat")
    folder.run(item(8, 16, purpose="retry", ordinal=2), "crash", effect="repeat")
    found = audits(logs(folder.folder))
    assert found == AuditCount(0, ("budget 8 topk 8 maxreq 16 graphs on was implied good and is bad",))


def test_clean_audits_bound_the_share_of_wrong_cells(tmp_path: Path) -> None:
    found = audits(logs(frontier(tmp_path / "f").folder))
    assert found.clean >= 1
    assert found.contradicted == ()
    assert "none contradicted" in found.text
    assert "less than 35% of the implied cells" in AuditCount(clean=7).text
    assert "contradicted by 1 of 3 audits: x" in AuditCount(2, ("x",)).text
