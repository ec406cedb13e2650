"""Claims: the started line, progress, waiting, and claims from several processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from store_builders import append, finished, item, me, plan, started, store_at
from treeline.claiming import Asker, claim, claim_or_wait, lost
from treeline.records import utc_now
from treeline.store import StoreError, SweepStore

MANY = """
import sys
from pathlib import Path
import msgspec
from treeline.claiming import Asker, claim
from treeline.records import Controller
from treeline.store import SweepStore
me = msgspec.json.decode(sys.argv[3], type=Controller)
answer = claim(SweepStore(Path(sys.argv[1])), Asker(sys.argv[2], "cpu", me))
print(answer.state, answer.trial_id, answer.item.item_id if answer.item else "-")
"""


def asker(host: str = "lab1", hardware_class: str = "cpu") -> Asker:
    return Asker(host, hardware_class, me())


def test_a_claim_is_the_started_line(tmp_path: Path) -> None:
    store = store_at(tmp_path / "s", plan(8, 16))
    answer = claim(store, asker())
    assert (answer.state, answer.trial_id, answer.k, answer.n) == ("item", "s-0001", 1, 2)
    (line,) = store.read_trials().lines
    assert line == store.read_trials().started["s-0001"]
    assert line.item_id == item(8).item_id
    assert store.read_trials().started["s-0001"].controller == me()
    assert answer.message.startswith(
        "[lab1] trial 1 of 2  budget 8 topk 8 maxreq 64 graphs on  (explore: grid)"
    )
    assert "elapsed" in answer.message
    assert "time left not known yet" in answer.message


def test_k_counts_cells_and_the_time_left_is_measured(tmp_path: Path) -> None:
    store = store_at(tmp_path / "s", plan(8, 16, 32))
    first = started(1)
    append(store, first, finished(first, "crash", "repeat"))
    answer = claim(store, asker())
    assert (answer.k, answer.n) == (2, 3)
    # Two cells and one repeat are left, a minute each.
    assert answer.message.endswith("about 3m left")
    for seq in (2, 3):
        again = started(seq, item(16 * (seq - 1)))
        append(store, *([again] if seq == 3 else []), finished(again))
    retry = claim(store, asker())
    assert retry.item is not None
    assert (retry.item.purpose, retry.k, retry.n) == ("retry", 1, 3)


def test_processes_that_claim_at_once_get_different_items(tmp_path: Path) -> None:
    store = store_at(tmp_path / "s", plan(8, 16, 32, 64))
    mine = msgspec.json.encode(me()).decode()
    asking = [
        subprocess.Popen(
            [sys.executable, "-c", MANY, str(store.folder), f"lab{number}", mine],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(1, 5)
    ]
    answers = [process.communicate(timeout=60)[0].split() for process in asking]
    assert {answer[0] for answer in answers} == {"item"}
    assert len({answer[1] for answer in answers}) == 4
    assert len({answer[2] for answer in answers}) == 4


def test_each_hardware_class_does_the_whole_plan(tmp_path: Path) -> None:
    store = store_at(tmp_path / "s", plan(8))
    assert claim(store, asker("lab1", "a")).state == "item"
    other = claim(store, asker("lab2", "b"))
    assert (other.state, other.k, other.n) == ("item", 1, 1)


def test_a_host_waits_for_another_and_takes_what_comes_back(tmp_path: Path) -> None:
    store = store_at(tmp_path / "s", plan(8))
    flight = started(1, host="lab2", at=utc_now())
    append(store, flight)
    said: list[str] = []
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            append(SweepStore(store.folder), finished(flight, "void", "void"))

    answer = claim_or_wait(store, asker(), 60, said.append, pause)
    assert answer.state == "item"
    assert len(pauses) == 3
    assert len(said) == 1
    assert "waits" in said[0]


def test_waiting_is_bounded(tmp_path: Path) -> None:
    store = store_at(tmp_path / "s", plan(8))
    append(store, started(1, host="lab2", at=utc_now()))
    now = [0.0]

    def pause(seconds: float) -> None:
        now[0] += seconds

    answer = claim_or_wait(store, asker(), 5, lambda text: None, pause, lambda: now[0])
    assert answer.state == "wait"
    assert now[0] == pytest.approx(5)


def test_a_claim_that_is_too_old_counts_as_given_up(tmp_path: Path) -> None:
    store = store_at(tmp_path / "s", plan(8))
    append(store, started(1, host="lab2", at="2026-01-01T00:00:00.000Z"))
    answer = claim(store, Asker("lab1", "cpu", me(), trial_bound_s=3600))
    assert answer.state == "item"
    assert answer.item is not None
    assert "interrupted" in answer.item.reason


def test_claims_of_an_earlier_run_are_interrupted(tmp_path: Path) -> None:
    store = store_at(tmp_path / "s", plan(8))
    gone = msgspec.structs.replace(me(), pid_start=1)
    append(store, started(1, host="lab2", at=utc_now(), controller=gone))
    answer = claim(store, asker())
    assert answer.trial_id == "s-0002"
    assert [line.item_id for line in store.read_trials().lines] == [item(8).item_id] * 2


def test_the_limit_counts_all_classes_of_this_run(tmp_path: Path) -> None:
    store = store_at(tmp_path / "s", plan(8, 16, 32), options={"max_trials_per_run": 2})
    one, other = started(1), started(2, item(8), host="lab2", hardware_class="b")
    append(store, one, finished(one), other, finished(other))
    answer = claim(store, asker())
    assert answer.state == "done"
    assert "max_trials_per_run" in answer.message


def test_states_without_an_item_are_said(tmp_path: Path) -> None:
    store = store_at(tmp_path / "s", plan(8, 16))
    first = started(1)
    append(
        store, first, finished(first, "crash", "setup", class_="model_missing", first_error="no such file")
    )
    stop = claim(store, asker())
    assert stop.state == "stop"
    assert "model_missing: no such file" in stop.message
    assert lost("lab1").state == "out"
    assert "unreachable" in lost("lab1").message


def test_nothing_is_claimed_where_the_file_cannot_be_trusted(tmp_path: Path) -> None:
    store = store_at(tmp_path / "s", plan(8))
    store.trials_path.write_bytes(b"{}\n{}\n")
    with pytest.raises(StoreError, match="line 1"):
        claim(store, asker())
    assert store.trials_path.read_bytes() == b"{}\n{}\n"
