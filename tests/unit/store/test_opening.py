"""Which folder a run works in."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from store_builders import DEAD, append, finished, item, me, plan, started
from treeline.opening import Opened, Request, SweepRefusedError, open_sweep
from treeline.records import Controller
from treeline.store import SweepStore

HOSTS = {"lab1": {"engine": "reference", "engine_build": "1", "model": "m", "hardware_class_hint": "cpu"}}
GONE = msgspec.structs.replace(me(), pid_start=1)


@pytest.fixture
def living() -> Iterator[Controller]:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
    yield me(child.pid)
    child.kill()
    child.wait(timeout=10)


def request(plan_hash: str = "abcdef01") -> Request:
    return Request(plan(8, 16), plan_hash, "field", {"budget": "8,16"}, {"ready_timeout": 30})


def opened(
    results: Path, by: Controller | None = None, hosts: dict[str, Any] | None = None, **changes: Any
) -> Opened:
    return open_sweep(results, request(**changes), HOSTS if hosts is None else hosts, by or me())


def test_the_first_run_begins_a_sweep(tmp_path: Path) -> None:
    first = opened(tmp_path / "results")
    assert not first.resumed
    assert first.sweep_id.endswith("Z-abcdef01")
    sweep = SweepStore(first.folder).read_sweep()
    assert sweep.plan == plan(8, 16)
    assert sweep.options == {"ready_timeout": 30}
    assert sweep.provenance["lab1"].hardware_class == "cpu"
    assert sweep.runs[0].controller == me()
    assert sweep.finished_at is None


def test_the_same_command_resumes_and_names_what_was_interrupted(tmp_path: Path) -> None:
    first = opened(tmp_path, GONE)
    store = SweepStore(first.folder)
    done = started(1, controller=GONE)
    append(store, done, finished(done), started(2, item(16), controller=GONE))
    with store.trials_path.open("ab") as stream:
        stream.write(b'{"event"')
    again = opened(tmp_path)
    assert again.resumed
    assert again.sweep_id == first.sweep_id
    assert again.interrupted == ("s-0002",)
    assert any("s-0002" in note and "interrupted" in note for note in again.notes)
    assert any("8 bytes" in note for note in again.notes)
    assert [run.controller for run in store.read_sweep().runs] == [GONE, me()]


def test_a_finished_sweep_another_plan_and_an_older_sweep_are_not_resumed(tmp_path: Path) -> None:
    first = opened(tmp_path, GONE)
    store = SweepStore(first.folder)
    renamed = tmp_path / "20200101T000000Z-abcdef01"
    first.folder.rename(renamed)
    assert not opened(tmp_path, plan_hash="00000000").resumed
    newer = tmp_path / "20210101T000000Z-abcdef01"
    renamed_store = SweepStore(renamed)
    sweep = renamed_store.read_sweep()
    newer.mkdir()
    store = SweepStore(newer)
    with store.lock():
        store.write_sweep(sweep)
    assert opened(tmp_path).folder == newer
    with store.lock():
        store.write_sweep(msgspec.structs.replace(sweep, finished_at="2026-01-01T00:00:00Z"))
    assert opened(tmp_path).folder == renamed


def test_a_living_controller_is_refused_at_once_and_named(tmp_path: Path, living: Controller) -> None:
    opened(tmp_path, living)
    with pytest.raises(SweepRefusedError, match=rf"pid {living.pid} on {living.host}"):
        opened(tmp_path)


def test_a_living_claim_counts_even_if_its_run_was_closed(tmp_path: Path, living: Controller) -> None:
    first = opened(tmp_path, GONE)
    append(SweepStore(first.folder), started(1, controller=living))
    with pytest.raises(SweepRefusedError, match=rf"pid {living.pid}"):
        opened(tmp_path)


def test_a_controller_on_another_machine_is_left_to_the_lease(tmp_path: Path) -> None:
    opened(tmp_path, DEAD)
    lease = {**msgspec.to_builtins(DEAD), "sweep_id": "s", "seconds_left": 100.0}
    with pytest.raises(SweepRefusedError, match=r"lab1 is held by .*elsewhere-1.* ends in 100 s"):
        opened(tmp_path, hosts={"lab1": {**HOSTS["lab1"], "lease_holder": lease}})
    ended = {**lease, "seconds_left": -1.0}
    assert opened(tmp_path, hosts={"lab1": {**HOSTS["lab1"], "lease_holder": ended}}).resumed


def test_a_lease_of_a_dead_process_of_this_machine_is_stale_and_its_own_is_fine(tmp_path: Path) -> None:
    for holder, stale in ((GONE, True), (me(), False)):
        lease = {"holder": {**msgspec.to_builtins(holder), "sweep_id": "s"}, "seconds_left": 100}
        found = opened(tmp_path, hosts={"lab1": {**HOSTS["lab1"], "lease_holder": lease}})
        assert ("lab1" in found.stale_leases) == stale
    assert opened(tmp_path, hosts={"lab1": {**HOSTS["lab1"], "lease_holder": None}}).stale_leases == {}


def test_a_lease_of_a_living_process_of_this_machine_is_refused(tmp_path: Path, living: Controller) -> None:
    lease = {**msgspec.to_builtins(living), "sweep_id": "other", "seconds_left": 100}
    with pytest.raises(SweepRefusedError, match="sweep other"):
        opened(tmp_path, hosts={"lab1": {**HOSTS["lab1"], "lease_holder": lease}})


def test_another_engine_build_begins_a_new_sweep_and_says_why(tmp_path: Path) -> None:
    first = opened(tmp_path, GONE)
    first.folder.rename(tmp_path / "20200101T000000Z-abcdef01")
    second = opened(tmp_path, hosts={"lab1": {**HOSTS["lab1"], "engine_build": "2"}})
    assert not second.resumed
    assert any("engine build was 1, is 2" in note for note in second.notes)


def test_hosts_may_join_and_stay_away(tmp_path: Path) -> None:
    opened(tmp_path, GONE)
    assert opened(tmp_path, GONE, hosts={"lab2": HOSTS["lab1"]}).resumed
    found = opened(tmp_path, GONE, hosts={"lab1": {}, "lab3": {}})
    assert found.resumed
    provenance = SweepStore(found.folder).read_sweep().provenance
    assert provenance["lab1"] == provenance["lab2"]
    assert "lab3" not in provenance


def test_hosts_of_one_class_must_be_alike(tmp_path: Path) -> None:
    other = {**HOSTS["lab1"], "engine_build": "2"}
    with pytest.raises(SweepRefusedError, match=r"engine build differs: 1 and 2.*treeline_hardware_class"):
        opened(tmp_path, hosts={"lab1": HOSTS["lab1"], "lab2": other})
    assert not opened(
        tmp_path, hosts={"lab1": HOSTS["lab1"], "lab2": {**other, "hardware_class": "b"}}
    ).resumed


def test_a_damaged_sweep_is_left_alone(tmp_path: Path) -> None:
    first = opened(tmp_path, GONE)
    folder = first.folder.rename(tmp_path / "20200101T000000Z-abcdef01")
    (folder / "sweep.json").write_text("{")
    second = opened(tmp_path)
    assert not second.resumed
    assert any("is left alone" in note for note in second.notes)
    assert (folder / "sweep.json").read_text() == "{"
