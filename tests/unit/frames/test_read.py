"""Results folders as frames: everything is a row, and what is torn or damaged is told apart."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from field_sweep import field_notes, frontier, renamed, torn
from sweeps import ALIVE, SweepFolder, item
from treeline.frames.measurements import measurements
from treeline.frames.requests import al_within_lives, request_files, request_summary
from treeline.frames.results import read
from treeline.jsonl import StoreError


def test_every_trial_and_measurement_is_a_row_with_its_slice(tmp_path: Path) -> None:
    results = read(field_notes(tmp_path / "results" / "s1").folder.parent)
    assert results.trials["status"].tolist() == ["ok", "crash", "crash", "crash", "garbled", "ok", "garbled"]
    assert results.trials["rows"].tolist() == [1152, 2304, 2176, 1088, 1056, 1088, 1040]
    assert set(results.trials["slice"]) == {"topk 4 graphs on", "topk 8 graphs on", "topk 8 graphs off"}
    assert results.trials.loc[1, "engine_build"] == "sglang 0.5.23"
    assert len(results.measurements) == 4
    assert results.simulated
    assert "Timing is simulated" in results.sentence
    assert results.cells.set_index("rows").loc[1152, "state"] == "good"


def test_torn_last_lines_are_left_out_and_damaged_ones_are_not(tmp_path: Path) -> None:
    folder = field_notes(tmp_path / "s1")
    torn(folder)
    assert len(read(folder.folder).measurements) == 4
    data = folder.store.measurements_path.read_bytes()
    folder.store.measurements_path.write_bytes(data.replace(b'"concurrency":32', b'"concurrency":"zz"', 1))
    with pytest.raises(StoreError, match=r"measurements cannot be read.*zz"):
        read(folder.folder)
    folder.store.measurements_path.write_bytes(data[: data.rfind(b"\n") + 1].replace(b"{", b"", 1))
    with pytest.raises(StoreError, match="cannot be read"):
        read(folder.folder)


def test_a_sweep_that_cannot_be_read_is_noted_and_the_others_are_read(tmp_path: Path) -> None:
    renamed(field_notes(tmp_path / "a"), "a")
    field_notes(tmp_path / "b").store.sweep_path.write_text("{", encoding="utf-8")
    results = read(tmp_path)
    assert [folder.name for folder in results.folders] == ["a"]
    assert results.notes[0].startswith("Sweep b is left out")


def test_a_copy_of_a_sweep_counts_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        field_notes(tmp_path / name)
    results = read(tmp_path)
    assert len(results.trials) == 7
    assert "once more" in results.notes[0]


def test_nothing_at_all_is_a_sentence_and_empty_frames(tmp_path: Path) -> None:
    results = read(tmp_path, tmp_path / "missing")
    assert results.sentence.startswith(f"No sweep was found in {tmp_path}")
    assert results.trials.empty
    assert results.measurements.empty
    assert results.cells.empty


def test_a_sweep_without_a_finished_trial(tmp_path: Path) -> None:
    folder = SweepFolder(tmp_path / "s", item(8), item(16))
    assert "no trial was begun yet" in read(folder.folder).sentence
    folder.start(item(8), controller=ALIVE)
    results = read(folder.folder)
    assert results.trials["status"].tolist() == ["running"]
    assert results.cells["state"].tolist() == ["open", "open"]


def test_cells_that_were_implied_say_so_and_why(tmp_path: Path) -> None:
    cells = read(frontier(tmp_path / "f").folder).cells
    measured = cells[cells["state"].isin(["good", "bad"])]
    implied = cells[cells["state"].str.startswith("implied")]
    assert len(cells) == 20
    assert len(implied) > 0
    assert implied["trials"].eq(0).all()
    assert implied["reason"].str.contains("budget").all()
    for row in cells.to_dict("records"):
        assert row["state"].endswith("bad") == (row["rows"] >= 1170), row
    assert len(measured) + len(implied) == 20


def test_a_cell_that_worked_in_one_sweep_and_failed_in_another_is_mixed(tmp_path: Path) -> None:
    for name, status, effect in (("a", "ok", "good"), ("b", "crash", "bad")):
        folder = SweepFolder(tmp_path / name, item(8))
        folder.run(item(8), status, effect=effect)
        renamed(folder, name)
    cells = read(tmp_path).cells
    assert cells["state"].tolist() == ["mixed"]
    assert cells["trials"].tolist() == [2]


def test_figures_of_a_cell_are_those_of_trials_that_say_something_about_it(tmp_path: Path) -> None:
    folder = SweepFolder(tmp_path / "s", item(8))
    folder.run(item(8), class_="ok", phase="serving", al=4.0, throughput={"1": 300.0})
    contaminated = item(8, purpose="confirm")
    folder.run(contaminated, "measurement_invalid", effect="back", al=9.0, throughput={"1": 900.0})
    (cell,) = read(folder.folder).cells.to_dict("records")
    assert (cell["status"], cell["AL"], cell["tok_s"], cell["trials"]) == ("ok", 4.0, 300.0, 1)


def test_a_cell_has_the_words_of_its_last_trial_and_not_of_several(tmp_path: Path) -> None:
    folder = SweepFolder(tmp_path / "s", item(8))
    folder.run(item(8), "crash", class_="illegal_address", phase="graph_capture", effect="repeat")
    folder.run(item(8, purpose="retry", ordinal=2), "timeout", effect="repeat")
    (cell,) = read(folder.folder).cells.to_dict("records")
    assert cell["status"] == "timeout"
    assert pd.isna(cell["class"])
    assert pd.isna(cell["phase"])


def test_columns_can_be_chosen_and_unknown_ones_are_refused(tmp_path: Path) -> None:
    folder = field_notes(tmp_path / "s").folder
    frame = measurements([folder], columns=["al", "output_tok_s"])
    assert "al" in frame
    assert "ttft_p50_ms" not in frame
    assert frame["al"].tolist() == [4.5, 4.55, 5.3, 5.35]
    with pytest.raises(ValueError, match="speed: no field of a measurement"):
        measurements([folder], columns=["speed"])


def test_requests_are_aggregated_over_files_with_exact_quantiles(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tmp_path / "s" / "requests"
    folder.mkdir(parents=True)
    for name, first in (("t1", 0.0), ("t2", 1.0)):
        rows = [
            {
                "trial_id": name,
                "phase": "point",
                "concurrency": 8,
                "context": None,
                "sent": 10.0,
                "first": 10.0 + first + number / 1000,
                "last": 12.0,
                "tokens": 9,
                "verify_calls": 2,
                "error": None,
            }
            for number in range(1, 102)
        ]
        rows.append(
            {**rows[0], "first": None, "last": None, "tokens": None, "verify_calls": None, "error": "x"}
        )
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet")
    for batch_rows in (1, 1_000_000):
        found = request_summary(request_files([tmp_path / "s"]), batch_rows=batch_rows)
        assert found["requests"].tolist() == [102, 102]
        assert found["failed"].tolist() == [1, 1]
        assert found["al"].tolist() == [4.5, 4.5]
        assert found["ttft_p50_ms"].tolist() == pytest.approx([51.0, 1051.0])
        assert found["ttft_p99_ms"].tolist() == pytest.approx([100.0, 1100.0])
    lives = al_within_lives(request_files([tmp_path / "s"]))
    assert lives["trial_id"].tolist() == ["t1", "t2"]
    assert lives["requests"].tolist() == [101, 101]
    # Every request accepted alike, so there is no noise in either life.
    for name in ("al", "al_low", "al_high"):
        assert lives[name].tolist() == pytest.approx([4.5, 4.5])
    assert request_summary([]).empty
    assert al_within_lives([]).empty
    (folder / "t3.parquet").write_bytes(b"no parquet")
    with pytest.raises(StoreError, match=r"t3\.parquet is no request table"):
        request_summary(request_files([tmp_path / "s"]))
