"""The crash memory: what is remembered, what expires it, and what a plan does with it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from store_builders import append, finished, item, plan, started, store_at
from treeline.keys import Known
from treeline.memory import MEMORY, known_of, read, remember
from treeline.plan import Done, Past, next_step
from treeline.records import Provenance
from treeline.store import SweepStore

HOST = Provenance(hardware_class="cpu", engine="reference", engine_build="1.0", model="m", driver="550")
NOTHING = {"cpu": Known()}


def swept(tmp_path: Path, *ends: tuple[int, str, str], name: str = "a", **changes: object) -> SweepStore:
    """A sweep of budgets with their status and effect, on one host."""
    store = store_at(
        tmp_path / name, plan(*(budget for budget, _, _ in ends)), provenance={"lab1": HOST}, **changes
    )
    for number, (budget, status, effect) in enumerate(ends, start=1):
        claim = started(number, item(budget))
        cause = {"class_": "illegal_address", "phase": "graph_capture"} if status == "crash" else {}
        append(store, claim, finished(claim, status, effect, **cause))
    return store


def learn(tmp_path: Path, store: SweepStore) -> list[str]:
    added = remember(tmp_path, store.read_sweep(), store.read_trials())
    return [f"{line.key.budget} {line.outcome}" for line in added]


def known(
    tmp_path: Path, host: Provenance = HOST, dialect: str = "field", *, use: bool = True
) -> dict[str, Known]:
    return known_of(tmp_path, plan(8, 16), dialect, {"lab1": host}, use_memory=use)


def test_a_known_crash_is_skipped_and_says_why(tmp_path: Path) -> None:
    assert learn(tmp_path, swept(tmp_path, (8, "ok", "good"), (16, "crash", "bad"))) == ["16 bad"]
    found = known(tmp_path)["cpu"]
    (reason,) = found.bad.values()
    assert list(found.bad) == [item(16).cell]
    assert "crash illegal_address in graph_capture on" in reason
    assert "(trial s-0002), by the crash memory" in reason
    past = Past(trial_id="t", item_id=item(8).item_id, cell=item(8).cell, host="lab1", effect="good")
    assert isinstance(next_step(plan(8, 16), [past], [], "lab1", known=found), Done)


def test_it_is_off_by_default(tmp_path: Path) -> None:
    learn(tmp_path, swept(tmp_path, (16, "crash", "bad")))
    assert known(tmp_path, use=False) == NOTHING


@pytest.mark.parametrize(
    "change",
    [{"engine_build": "1.1"}, {"model": "n"}, {"driver": "560"}, {"engine": "sglang"}],
)
def test_any_change_of_the_key_expires_it(tmp_path: Path, change: dict[str, str]) -> None:
    learn(tmp_path, swept(tmp_path, (16, "crash", "bad")))
    assert known(tmp_path, msgspec.structs.replace(HOST, **change)) == NOTHING
    other = msgspec.structs.replace(HOST, hardware_class="gpu")
    assert known(tmp_path, other) == {"gpu": Known()}
    assert known(tmp_path, dialect="pr29907") == NOTHING


def test_what_cannot_be_compared_is_neither_remembered_nor_recalled(tmp_path: Path) -> None:
    unknown = msgspec.structs.replace(HOST, engine_build=None)
    store = swept(tmp_path, (16, "crash", "bad"))
    sweep = store.read_sweep()
    sweep.provenance = {"lab1": unknown}
    assert remember(tmp_path, sweep, store.read_trials()) == []
    assert known(tmp_path, unknown) == NOTHING


@pytest.mark.parametrize(
    ("status", "effect"),
    [("crash", "repeat"), ("crash", "repeat_transient"), ("void", "void"), ("ok", "good")],
)
def test_only_what_is_certain_is_remembered(tmp_path: Path, status: str, effect: str) -> None:
    assert learn(tmp_path, swept(tmp_path, (16, status, effect))) == []


def test_a_cell_that_works_after_all_is_forgotten(tmp_path: Path) -> None:
    learn(tmp_path, swept(tmp_path, (16, "crash", "bad")))
    assert learn(tmp_path, swept(tmp_path, (16, "ok", "good"), name="b")) == ["16 good"]
    assert known(tmp_path) == NOTHING
    assert learn(tmp_path, swept(tmp_path, (16, "crash", "bad"), name="c")) == ["16 bad"]
    assert len(read(tmp_path)) == 3


def test_nothing_is_said_twice(tmp_path: Path) -> None:
    store = swept(tmp_path, (16, "crash", "bad"))
    assert learn(tmp_path, store) == ["16 bad"]
    assert learn(tmp_path, store) == []
    assert len((tmp_path / MEMORY).read_bytes().splitlines()) == 1


def test_a_torn_line_is_left_out(tmp_path: Path) -> None:
    learn(tmp_path, swept(tmp_path, (16, "crash", "bad")))
    with (tmp_path / MEMORY).open("ab") as stream:
        stream.write(b'{"identity":{"hard')
    assert len(known(tmp_path)["cpu"].bad) == 1
