"""The table of effects, one rule at a time."""

from __future__ import annotations

import pytest
from plan_builders import flying, item, past, plan
from treeline.keys import Item
from treeline.plan import Done, InFlight, Out, Past, Stop, Wait, cells, next_step
from treeline.records import Effect

A, B, C = item(8), item(16), item(32)


def retry(of: Item) -> Item:
    return of.again("retry", 2, "once more")


def step_ids(history: list[Past], flights: tuple[InFlight, ...] = (), host: str = "lab1") -> str:
    step = next_step(plan(8, 16, 32), history, flights, host)
    return step.item_id if isinstance(step, Item) else type(step).__name__


def test_items_come_in_the_order_of_the_plan_and_then_the_plan_is_done() -> None:
    assert next_step(plan(8, 16), [], [], "lab1") == A
    assert step_ids([past(A, "good")]) == B.item_id
    done = next_step(plan(8, 16), [past(A, "good"), past(B, "bad")], [], "lab1")
    assert isinstance(done, Done)
    assert done.complete


def test_an_item_in_flight_elsewhere_is_not_given_out_twice() -> None:
    assert step_ids([], (flying(A),)) == B.item_id
    assert step_ids([], (flying(A), flying(B, "lab3"))) == C.item_id


@pytest.mark.parametrize("effect", ["repeat", "repeat_transient"])
def test_a_crash_without_a_known_cause_is_repeated_once(effect: Effect) -> None:
    one = plan(8)
    step = next_step(one, [past(A, effect, trial="t1")], [], "lab1")
    assert isinstance(step, Item)
    assert (step.purpose, step.ordinal, step.item_id) == ("retry", 2, f"{A.cell}/retry/2")
    assert "t1" in step.reason
    for second in ("good", "bad", "repeat", "repeat_transient"):
        over = next_step(one, [past(A, effect), past(retry(A), second)], [], "lab1")
        assert isinstance(over, Done)


def test_repeats_wait_until_every_cell_was_seen_once() -> None:
    history = [past(A, "repeat"), past(B, "good")]
    assert step_ids(history) == C.item_id
    assert step_ids([*history, past(C, "good")]) == f"{A.cell}/retry/2"


@pytest.mark.parametrize(
    ("first", "second", "state", "closes"),
    [
        ("good", None, "good", False),
        ("bad", None, "bad", True),
        ("repeat", None, "open", False),
        ("repeat", "good", "mixed", False),
        ("repeat", "bad", "bad", True),
        ("repeat", "repeat", "bad", True),
        ("repeat_transient", "repeat_transient", "bad", False),
        ("repeat", "setup", "unknown", False),
        ("dialect", None, "unknown", False),
        ("setup", None, "unknown", False),
        ("void", None, "open", False),
    ],
)
def test_what_the_trials_of_a_cell_say_together(
    first: Effect, second: Effect | None, state: str, closes: bool
) -> None:
    history = [past(A, first)] + ([past(retry(A), second)] if second else [])
    cell = cells(plan(8), history)[A.cell]
    assert (cell.state, cell.closes) == (state, closes)


def test_a_repeat_without_a_cause_says_so() -> None:
    history = [past(A, "repeat"), past(retry(A), "repeat")]
    assert "cause unknown" in cells(plan(8), history)[A.cell].reason


@pytest.mark.parametrize("effect", ["void", "back", None, "node"])
def test_an_item_goes_back_three_times_and_then_its_cell_is_unknown(effect: Effect | None) -> None:
    one = plan(8)
    hosts = ["lab1", "lab2", "lab3", "lab4"]
    for times in range(1, 4):
        history = [past(A, effect, host) for host in hosts[:times]]
        step = next_step(one, history, [], "lab9")
        assert isinstance(step, Item)
        assert step.item_id == A.item_id
        assert "again" in step.reason
    history = [past(A, effect, host) for host in hosts]
    assert isinstance(next_step(one, history, [], "lab9"), Done)
    assert cells(one, history)[A.cell].state == "unknown"


def test_an_item_that_went_back_waits_behind_the_others_but_an_interrupted_one_does_not() -> None:
    assert step_ids([past(A, "void")]) == B.item_id
    assert step_ids([past(A, "back")]) == B.item_id
    assert step_ids([past(A, None)]) == A.item_id


def test_two_voids_in_a_row_take_the_host_out_and_no_other() -> None:
    history = [past(A, "good"), past(B, "void"), past(C, "void", trial="t9")]
    step = next_step(plan(8, 16, 32), history, [], "lab1")
    assert isinstance(step, Out)
    assert step.host == "lab1"
    assert "two of its trials in a row were void" in step.reason
    assert step_ids(history, host="lab2") == B.item_id


def test_voids_that_are_not_in_a_row_or_not_of_this_run_do_not_count() -> None:
    assert step_ids([past(A, "void"), past(B, "good"), past(A, "void")]) == C.item_id
    assert step_ids([past(A, "void"), past(B, "void", "lab2")]) == C.item_id
    earlier = [past(A, "void", this_run=False), past(B, "void", this_run=False)]
    assert step_ids(earlier) == C.item_id
    assert step_ids([past(A, "void"), past(B, "back"), past(C, "void")]) == A.item_id


def test_a_failing_node_takes_its_host_out_at_once() -> None:
    step = next_step(plan(8, 16), [past(A, "node")], [], "lab1")
    assert isinstance(step, Out)
    assert "hardware or driver" in step.reason
    assert step_ids([past(A, "node")], host="lab2") == B.item_id


def test_a_setup_failure_stops_the_sweep_when_it_comes_first() -> None:
    step = next_step(plan(8, 16), [past(A, "setup")], [], "lab1")
    assert isinstance(step, Stop)
    assert "first trial" in step.reason
    assert "same command again" in step.reason


def test_a_later_setup_failure_stops_only_with_the_next_cell() -> None:
    history = [past(A, "good"), past(B, "setup")]
    assert step_ids(history) == C.item_id
    assert step_ids([*history, past(C, "setup")]) == "Stop"
    assert step_ids([*history, past(C, "good")]) == "Done"
    same_cell = [past(A, "good"), past(B, "setup"), past(retry(B), "setup")]
    assert step_ids(same_cell) == C.item_id


def test_two_cells_in_a_row_that_the_dialect_does_not_fit_stop_the_sweep_with_advice() -> None:
    assert step_ids([past(A, "dialect")]) == B.item_id
    step = next_step(plan(8, 16, 32), [past(A, "dialect"), past(B, "dialect")], [], "lab1")
    assert isinstance(step, Stop)
    assert "engine_dialect" in step.reason
    assert step_ids([past(A, "dialect"), past(B, "void"), past(B, "dialect")], host="lab2") == "Stop"
    assert step_ids([past(A, "dialect"), past(B, "good")]) == C.item_id


def test_a_stop_holds_for_the_rest_of_the_run_and_a_new_run_tries_again() -> None:
    stopped = [past(A, "setup"), past(B, "good", "lab2")]
    assert step_ids(stopped, host="lab2") == "Stop"
    again = [past(A, "setup", this_run=False), past(B, "good", "lab2", this_run=False)]
    assert step_ids(again) == A.item_id


def test_a_host_waits_while_the_last_item_may_come_back() -> None:
    history = [past(A, "good"), past(B, "good")]
    step = next_step(plan(8, 16, 32), history, [flying(C)], "lab1")
    assert isinstance(step, Wait)
    assert C.item_id in step.reason
    assert "lab2" in step.reason


def test_a_host_does_not_wait_for_what_cannot_come_back() -> None:
    again = retry(A)
    history = [past(A, "repeat"), *(past(again, "back", f"lab{n}") for n in range(3, 6))]
    assert isinstance(next_step(plan(8), history[:-1], [flying(again)], "lab1"), Wait)
    done = next_step(plan(8), history, [flying(again)], "lab1")
    assert isinstance(done, Done)
    assert not done.complete


def test_a_host_that_asks_has_given_up_what_it_claimed_before() -> None:
    assert step_ids([], (flying(A, "lab1"),)) == A.item_id


def test_the_limit_of_a_run_ends_it_cleanly_and_says_how_to_go_on() -> None:
    history = [past(A, "good", this_run=False), past(B, "good")]
    step = next_step(plan(8, 16, 32), history, [], "lab1", limit=1)
    assert isinstance(step, Done)
    assert not step.complete
    assert "max_trials_per_run" in step.reason
    assert "same command again" in step.reason
    assert isinstance(next_step(plan(8, 16, 32), history, [], "lab1", limit=2), Item)
    complete = next_step(plan(8, 16), history, [], "lab1", limit=1)
    assert isinstance(complete, Done)
    assert complete.complete
