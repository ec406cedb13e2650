"""The story of a sweep: reasons, map, contradictions, bounds; and the rehearsal of a plan."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from plan_builders import cell, end, frontier, item
from store_builders import append, finished, me, started, store_at
from treeline.cli import main
from treeline.explain import explain
from treeline.keys import Item, Known, Plan
from treeline.plan import Done, Past, next_step
from treeline.plan.cells import Cell
from treeline.plan.rehearse import rehearsal_lines, rehearse
from treeline.plan.story import extra_restarts, hole_bound, odds, odds_line, search_lines
from treeline.store import SweepStore


def sweep(
    tmp_path: Path, plan: Plan, bad: set[tuple[int, int]], hosts: tuple[str, ...] = ("lab1",)
) -> SweepStore:
    """A sweep on the disk whose search went to its end."""
    store = store_at(tmp_path / "20260101T000000Z-abcdef01", plan)
    past: list[Past] = []
    while not isinstance(step := next_step(plan, past, [], hosts[0]), Done):
        assert isinstance(step, Item)
        number = len(past) + 1
        fails = (step.key.budget, step.key.maxreq) in bad
        host = hosts[number % len(hosts)]
        claim = started(number, step, reason=step.reason, host=host, at="2026-01-01T00:00:00.000Z")
        verdict = finished(
            claim,
            "crash" if fails else "ok",
            "bad" if fails else "good",
            class_="illegal_address" if fails else "ok",
            phase="graph_capture" if fails else "serving",
        )
        append(store, claim, verdict)
        past.append(end(step.item_id, "bad" if fails else "good", host))
    return store


BAD = {(8, 128), (16, 128), (16, 64), (32, 128), (32, 64), (32, 32)}


def test_every_step_is_told_with_its_reason_and_its_end(tmp_path: Path) -> None:
    store = sweep(tmp_path, frontier(confirm=True, audit_share=0.1), BAD)
    said = "\n".join(explain(store.folder))
    assert "why: explore: walk: smallest budget, largest limit" in said
    assert "end: crash illegal_address in graph_capture (after 1m; bad)" in said
    assert "why: confirm: a corner of the bad cells" in said
    assert "why: audit: 1 of 1 out of" in said
    assert "budget 16 works up to maxreq 32, fails from 64 on" in said
    assert "contradictions: none" in said
    assert "audits found what was implied: at most" in said
    assert "known: 12 of 12 cells" in said
    assert "still to come: about 0 restarts" in said


def test_the_map_shows_what_was_measured_and_what_is_only_believed() -> None:
    plan = frontier()
    history = [end(f"{cell(8, 128)}/explore/1", "bad"), end(f"{cell(8, 64)}/explore/1", "good")]
    lines = search_lines(plan, history, Known(bad={cell(32, 16): "crash"}))
    rows = {line.split()[0]: line.split()[1:] for line in lines if line.strip()[:1].isdigit()}
    assert rows["128"] == ["B", "b", "b"]
    assert rows["64"] == ["G", "?", "b"]
    assert rows["16"] == ["g", "?", "K"]


def test_contradictions_are_told() -> None:
    plan = frontier(audit_share=0.1)
    history = [
        end(f"{cell(8, 128)}/explore/1", "good"),
        end(f"{cell(16, 128)}/explore/1", "good"),
        end(f"{cell(32, 128)}/explore/1", "good"),
        end(f"{cell(16, 32)}/audit/1", "bad"),
    ]
    said = "\n".join(search_lines(plan, history, Known()))
    assert "maxreq 32 of budget 16 was seen bad by an audit, although its neighbours imply good" in said
    assert "0 audits found what was implied: at most 100 %" in said


def test_a_failed_life_after_a_good_one_is_an_interval() -> None:
    assert odds(Cell("c", "good", "", goods=2)) == (0.0, pytest.approx(1 - 0.05**0.5))
    assert odds(Cell("c", "bad", "", fails=2)) == (pytest.approx(0.05**0.5), 1.0)
    assert odds(Cell("c", "mixed", "", goods=1, fails=1)) == pytest.approx((0.0126, 0.9874), abs=1e-4)
    assert odds(Cell("c", "open", "")) == (0.0, 1.0)
    assert "failed 0 of 1 life, so in at most 95.0 %" in odds_line(Cell("c", "good", "", goods=1))


def test_the_bound_of_clean_audits() -> None:
    assert hole_bound(0) == 1
    assert hole_bound(7) == pytest.approx(0.348, abs=1e-3)
    assert hole_bound(29) == pytest.approx(0.098, abs=1e-3)


def test_steps_ahead_that_were_not_needed_are_counted(tmp_path: Path) -> None:
    from treeline.plan.evidence import Evidence
    from treeline.plan.outcome import cells_of
    from treeline.plan.search import Search

    plan = frontier()
    assert plan.frontier is not None
    walked = [cell(8, 128), cell(16, 128), cell(32, 128), cell(8, 64)]
    history = [end(f"{place}/explore/1", "good", f"lab{number % 2}") for number, place in enumerate(walked)]
    search = Search(plan.frontier, Evidence.of(history), Known())
    assert extra_restarts(plan.frontier, search, cells_of(search), history) == 1
    alone = [end(past.item_id, "good") for past in history]
    assert extra_restarts(plan.frontier, search, cells_of(search), alone) == 0


def test_an_unfinished_and_a_listed_sweep_have_a_story_too(tmp_path: Path) -> None:
    grid = Plan(kind="grid", items=(item(8), item(16)))
    store = store_at(tmp_path / "20260101T000000Z-abcdef02", grid)
    append(store, started(1, item(8), controller=me()))
    said = explain(store.folder)
    assert "end: no verdict; it was interrupted or is under way" in "\n".join(said)
    done = CliRunner().invoke(main, ["plan", "--results", str(tmp_path), "--explain"])
    assert done.exit_code == 0, done.output
    assert "why: explore: grid" in done.output
    wrong = CliRunner().invoke(main, ["plan", "--results", str(tmp_path), "--explain", "1999"])
    assert wrong.exit_code == 1
    assert "1999" in wrong.output


def test_a_rehearsal_runs_nothing_and_says_what_it_assumes() -> None:
    grid = Plan(kind="grid", items=(item(8), item(16)))
    assert [step.item.item_id for step in rehearse(grid)] == [item(8).item_id, item(16).item_id]
    assert rehearsal_lines(grid)[0].startswith("1. budget 8 topk 8 maxreq 64 graphs on  (explore: grid)")
    assert len(rehearse(grid, Known(bad={item(8).cell: "crash"}))) == 1
    plan = frontier(confirm=True, rows_prior=600)
    lines = rehearsal_lines(plan)
    assert lines[0].startswith("Path if every trial ended as the rows prior of 600 says (assumed")
    assert lines[1].endswith("-> assumed bad")
    assert lines[2].endswith("-> assumed good")
