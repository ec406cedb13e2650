"""What a sweep may cost: restarts and hours over all of its runs, and a clean end."""

from __future__ import annotations

from pathlib import Path

from plan_builders import cell, end, frontier, item, past, plan
from store_builders import DEAD, append, finished, started, store_at
from treeline.keys import Item
from treeline.plan import Done, Spend, hours_at_work, known_and_open, next_step, position
from treeline.plan.evidence import group_of
from treeline.records import Run

A, B = item(8), item(16)


def test_restarts_of_all_runs_count_and_the_end_is_clean() -> None:
    history = [past(A, None, this_run=False), past(A, "good", this_run=False)]
    spend = Spend(max_restarts=2)
    found = next_step(plan(8, 16), history, [], "lab1", spend=spend)
    assert isinstance(found, Done)
    assert not found.complete
    assert found.reason == (
        "2 restarts are spent, and max_restarts=2 allows no more. Run the same command again to go on "
        "with a larger one"
    )
    assert isinstance(next_step(plan(8, 16), history, [], "lab1", spend=Spend(max_restarts=3)), Item)
    both = Spend(max_restarts=3, elsewhere=1)
    assert isinstance(next_step(plan(8, 16), history, [], "lab1", spend=both), Done)
    complete = next_step(plan(8), history, [], "lab1", spend=spend)
    assert isinstance(complete, Done)
    assert complete.complete


def test_no_trial_is_begun_that_would_end_beyond_the_hours() -> None:
    late = Spend(max_hours=2.0, hours=1.9, trial_hours=0.15)
    found = next_step(plan(8), [], [], "lab1", spend=late)
    assert isinstance(found, Done)
    assert "1.9 hours are spent, and one more trial would go beyond max_hours=2" in found.reason
    assert isinstance(next_step(plan(8), [], [], "lab1", spend=Spend(max_hours=2.0, hours=1.8)), Item)


def test_a_search_that_ends_early_tells_what_is_known_and_what_is_open() -> None:
    search = frontier()
    history = [end(f"{cell(8, 128)}/explore/1", "bad"), end(f"{cell(8, 64)}/explore/1", "good")]
    said = known_and_open(search, history)
    # Budget 8 is decided, and 128 is implied bad for the larger budgets.
    assert said == "known: 6 of 12 cells (2 measured, 4 implied); open: 6"
    found = next_step(search, history, [], "lab1", spend=Spend(max_restarts=2))
    assert isinstance(found, Done)
    assert said in found.reason


def test_hours_at_work_leave_out_the_time_between_runs() -> None:
    runs = [
        Run(controller=DEAD, started_at="2026-01-01T00:00:00Z", ended_at="2026-01-01T01:00:00Z"),
        # This one died without closing: it counts until its last line.
        Run(controller=DEAD, started_at="2026-01-02T00:00:00Z"),
        Run(controller=DEAD, started_at="2026-01-03T00:00:00Z"),
    ]
    claim = started(1, at="2026-01-02T00:00:00Z")
    lines = [claim, finished(claim, at="2026-01-02T00:30:00Z")]
    assert hours_at_work(runs, lines, "2026-01-03T02:00:00Z") == 3.5
    assert hours_at_work([], [], "2026-01-03T02:00:00Z") == 0


def test_a_cell_is_found_again_in_its_slice() -> None:
    assert group_of(cell(16, 64, topk=4)) == ("k4-bs8-g1", (16, 64))
    key = A.key.__class__.from_dict({**A.key.to_dict(), "attention_backend": "a-b", "graph_max_bs": 4})
    assert group_of(key.slug) == ("k8-bs8-g1-gm4-ab_a-b", (8, 64))


def test_the_place_of_a_trial_among_those_of_a_search(tmp_path: Path) -> None:
    search = frontier(budgets=(8, 16), limits=(16, 32))
    store = store_at(tmp_path / "s", search)
    first = next_step(search, [], [], "lab1")
    assert isinstance(first, Item)
    assert position(search, store.read_trials(), "cpu", first) == (1, 3)
    claim = started(1, first)
    append(store, claim, finished(claim, "ok", "good"))
    second = next_step(search, [end(first.item_id, "good")], [], "lab1")
    assert isinstance(second, Item)
    assert position(search, store.read_trials(), "cpu", second) == (2, 3)
    assert position(search, store.read_trials(), "other", first)[0] == 1
