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
from treeline.claiming import Asker, claim
from treeline.closing import close_sweep
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


def test_a_complete_sweep_that_owes_a_restore_is_resumed_and_only_restores(tmp_path: Path) -> None:
    first = opened(tmp_path, GONE)
    store = SweepStore(first.folder.rename(tmp_path / "20200101T000000Z-abcdef01"))
    for seq, budget in enumerate((8, 16), 1):
        line = started(seq, item(budget), controller=GONE)
        append(store, line, finished(line))
    owed = {"lab1": {"restored": False, "reason": "no route to host"}}
    closed = close_sweep(store, GONE, owed, fail_on_bad=False)
    assert (closed.outcome, closed.finished) == ("complete", False)

    again = opened(tmp_path)
    assert (again.resumed, again.sweep_id) == (True, first.sweep_id)
    assert again.reason == "its plan is complete, but it still owed what ran before to lab1"
    assert claim(store, Asker(host="lab1", hardware_class="cpu", controller=me())).state == "done"
    closed = close_sweep(store, me(), {"lab1": {"restored": True}}, fail_on_bad=False)
    assert (closed.outcome, closed.finished, closed.failures) == ("complete", True, ())
    assert len(store.read_trials().started) == 2
    assert not opened(tmp_path).resumed


def test_a_debt_goes_on_unless_preflight_finds_that_it_was_paid(tmp_path: Path) -> None:
    first = opened(tmp_path, GONE)
    store = SweepStore(first.folder)
    states = {host: {"restored": False, "reason": "away"} for host in ("lab1", "lab2", "lab3", "lab4")}
    close_sweep(store, GONE, states, fail_on_bad=False)
    seen = {"lab1": {"snapshot_present": None}, "lab2": {"snapshot_present": first.sweep_id}}
    found = {host: HOSTS["lab1"] | answer for host, answer in seen.items()}
    # The third does not answer, and the fourth takes no part in this run.
    assert opened(tmp_path, hosts={**found, "lab3": {"unreachable": True, "msg": "timed out"}}).resumed
    assert sorted(store.read_sweep().runs[-1].hosts or {}) == ["lab2", "lab3"]


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
