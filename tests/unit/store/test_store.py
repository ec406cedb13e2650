"""The sweep folder: what is written reads back, and nothing else is written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from store_builders import append, encoded, finished, item, plan, started, store_at
from treeline.records import Measurement
from treeline.store import StoreError, SweepStore, locked, sweep_folders


def test_trials_read_back_as_they_were_written(tmp_path: Path) -> None:
    store = store_at(tmp_path / "s")
    first, second = started(1), started(2, item(16))
    verdict = finished(first, "crash", "bad", class_="illegal_address", rank=0, captured_bs=64)
    append(store, first, second, verdict)
    log = store.read_trials()
    assert log.lines == (first, second, verdict)
    assert log.unfinished == (second,)
    assert log.finished == {first.trial_id: verdict}
    assert log.next_seq == 3


def test_the_lines_have_the_agreed_names(tmp_path: Path) -> None:
    line = msgspec.json.decode(encoded(finished(started(1), class_="ok")))
    assert line["event"] == "finished"
    assert line["class"] == "ok"
    assert line["schema_version"] == 1
    assert msgspec.json.decode(encoded(started(1)))["event"] == "started"


def test_fields_of_a_newer_version_are_accepted(tmp_path: Path) -> None:
    store = store_at(tmp_path / "s")
    line = started(1)
    store.trials_path.write_bytes(encoded(line)[:-1] + b',"newer":{"a":1}}\n')
    assert store.read_trials().lines == (line,)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"seq":1', b'"seq":"1"'),
        (b'"purpose":"explore"', b'"purpose":"other"'),
        (b'"budget":8', b'"budget":8,"tp":4'),
        (b'"event":"started"', b'"event":"begun"'),
    ],
)
def test_known_fields_are_strict(tmp_path: Path, old: bytes, new: bytes) -> None:
    store = store_at(tmp_path / "s")
    assert old in encoded(started(1))
    store.trials_path.write_bytes(encoded(started(1)).replace(old, new) + b"\n")
    with pytest.raises(StoreError, match="line 1 is not understood"):
        store.read_trials()


def test_what_is_not_valid_is_not_written(tmp_path: Path) -> None:
    store = store_at(tmp_path / "s")
    for bad in (
        finished(started(1), "exploded"),
        finished(started(1), al=float("nan")),
        finished(started(1), first_error="\udcff"),
    ):
        with pytest.raises(StoreError, match="record"):
            append(store, bad)
    assert not store.trials_path.exists()


def test_measurements_read_back(tmp_path: Path) -> None:
    store = store_at(tmp_path / "s")
    row = Measurement(
        trial_id="s-0001",
        sweep_id="s",
        host="lab1",
        hardware_class="cpu",
        key=item().key,
        concurrency=8,
        requests=16,
        at="2026-01-01T00:00:00.000Z",
        window={"start": 0.5, "end": 1.5},
        al=4.5,
    )
    with store.lock():
        store.append_measurement(row)
    assert store.read_measurements() == (row,)


def test_a_torn_line_is_left_out_and_counted(tmp_path: Path) -> None:
    store = store_at(tmp_path / "s")
    append(store, started(1))
    with store.trials_path.open("ab") as stream:
        stream.write(b'{"event":"fin')
    assert len(store.read_trials().lines) == 1
    assert store.read_trials().torn_bytes == 13


def test_the_sweep_reads_back_and_damage_is_named(tmp_path: Path) -> None:
    store = store_at(tmp_path / "s", plan(8, 16))
    assert [entry.key.budget for entry in store.read_sweep().plan.items] == [8, 16]
    store.sweep_path.write_text("{}")
    with pytest.raises(StoreError, match=r"sweep\.json is no valid sweep"):
        store.read_sweep()


def test_the_lock_is_bounded_and_names_its_file(tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom treeline.store import locked\n"
        "with locked(Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(60)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StoreError, match=r"\.lock is held by another process"), locked(tmp_path, 0.2):
            pass
    finally:
        holder.kill()
        holder.wait(timeout=10)
    with locked(tmp_path, 5):
        pass


def test_sweeps_are_found_newest_first(tmp_path: Path) -> None:
    for name in ("20260101T000000Z-a", "20260301T000000Z-b", "20260201T000000Z-c"):
        store_at(tmp_path / name)
    (tmp_path / "other").mkdir()
    names = [folder.name[:6] for folder in sweep_folders(tmp_path)]
    assert names == ["202603", "202602", "202601"]
    assert sweep_folders(tmp_path / "none") == []


def test_importing_the_store_and_the_plan_is_light() -> None:
    code = (
        "import sys, treeline.store, treeline.plan\n"
        "print([name for name in ('pandas', 'pyarrow', 'numpy', 'yaml') if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_a_store_of_a_missing_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        SweepStore(tmp_path / "none").read_sweep()
