"""Several hosts and one search: side by side, ahead of one another, and never the same item."""

from __future__ import annotations

from plan_builders import cell, drive, flying, frontier, step
from treeline.keys import Item
from treeline.plan import Spend, Wait, next_step, open_items


def test_slices_run_side_by_side() -> None:
    plan = frontier(topks=(4, 8))
    first = step(plan, [])
    other = step(plan, [], in_flight=[flying(first)])
    assert (first.key.topk, other.key.topk) == (4, 8)


def test_within_a_slice_another_host_looks_ahead_and_says_what_it_assumes() -> None:
    plan = frontier(rows_prior=600)
    first = step(plan, [])
    ahead = step(plan, [], in_flight=[flying(first)])
    assert ahead.item_id == f"{cell(8, 64)}/explore/1"
    assert f"ahead of the walk, assuming that {cell(8, 128)} is bad" in ahead.reason
    both = [flying(first), flying(ahead, "lab3")]
    assert step(plan, [], in_flight=both, host="lab3").item_id == ahead.item_id
    assert step(plan, [], in_flight=both, host="lab4").item_id == f"{cell(16, 64)}/explore/1"


def test_nobody_looks_ahead_where_restarts_are_counted() -> None:
    plan = frontier()
    found = next_step(plan, [], [flying(step(plan, []))], "lab1", spend=Spend(max_restarts=9))
    assert isinstance(found, Wait)
    assert "depends on what is being run" in found.reason


def test_hosts_confirm_at_once_but_never_the_same_item() -> None:
    limits = (8, 16, 32, 64, 128, 256)
    plan = frontier(confirm=True, audit_share=0.1, limits=limits)
    bad = {(budget, limit) for budget in (8, 16, 32) for limit in limits if budget * limit > 512}
    past = [entry for entry in drive(plan, bad) if "/explore/" in entry.item_id]
    flights, handed = [], []
    for number in range(2, 8):
        found = next_step(plan, past, flights, f"lab{number}")
        if isinstance(found, Wait):
            break
        assert isinstance(found, Item)
        handed.append(found)
        flights.append(flying(found, f"lab{number}"))
    assert {item.purpose for item in handed} == {"confirm"}
    assert len({item.item_id for item in handed}) == len(handed) == 3
    # Audits wait for the confirmations, which may still turn over what is implied.
    assert isinstance(next_step(plan, past, flights, "lab9"), Wait)
    assert [item.item_id for item in open_items(plan, past)] == [item.item_id for item in handed]


def test_the_item_of_a_host_that_asks_again_was_given_up() -> None:
    plan = frontier()
    first = step(plan, [])
    assert step(plan, [], in_flight=[flying(first, "lab1")], host="lab1") == first
