"""Exchange: foreign results come in marked and complete, ours go out and come back."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pandas as pd
import pytest
from click.testing import CliRunner
from field_sweep import field_notes
from treeline.cli import main
from treeline.exchange import files
from treeline.exchange.row import ExchangeError, ForeignRow
from treeline.frames.results import read
from treeline.jsonl import StoreError

SGLANG = {
    "tag": "a",
    "backend": "sglang",
    "dataset_name": "random",
    "request_rate": "inf",
    "max_concurrency": 8,
    "random_input_len": 512,
    "random_output_len": 128,
    "duration": 10.0,
    "completed": 80,
    "total_input_tokens": 40960,
    "total_output_tokens": 10240,
    "request_throughput": 8.0,
    "output_throughput": 1024.0,
    "total_throughput": 5120.0,
    "median_ttft_ms": 30.0,
    "p99_ttft_ms": 60.0,
    "median_tpot_ms": 7.5,
    "median_e2e_latency_ms": 980.0,
    "accept_length": 3.2,
    "server_info": {
        "tp_size": 8,
        "speculative_num_draft_tokens": 17,
        "speculative_eagle_topk": 8,
        "max_running_requests": 64,
        "disable_cuda_graph": False,
        "model_path": "m",
    },
}


def write(path: Path, *lines: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_bench_serving_takes_the_last_run_of_the_same_settings(tmp_path: Path) -> None:
    again, other = SGLANG | {"output_throughput": 1100.0}, SGLANG | {"max_concurrency": 1}
    path = write(tmp_path / "bench.jsonl", SGLANG, other, again)
    with path.open("a", encoding="utf-8") as stream:
        stream.write('{"tag": "cut')
    rows = files.read([path])
    assert [(row.concurrency, row.output_tok_s) for row in rows] == [(1, 1024.0), (8, 1100.0)]
    row = rows[1]
    assert (row.foreign, row.source, row.budget, row.topk, row.maxreq, row.graphs) == (
        True,
        "sglang",
        16,
        8,
        64,
        True,
    )
    assert (row.al, row.ttft_p50_ms, row.e2e_p50_ms, row.gpus, row.rate) == (3.2, 30.0, 980.0, 8, None)


def test_a_vllm_sweep_with_its_failed_runs(tmp_path: Path) -> None:
    folder = tmp_path / "exp"
    run = {
        "model_id": "m",
        "max_concurrency": 4,
        "completed": 32,
        "failed": 0,
        "duration": 9.0,
        "output_throughput": 500.0,
        "total_token_throughput": 900.0,
        "mean_tpot_ms": 8.0,
        "median_ttft_ms": 21.0,
        "spec_decode_acceptance_length": 2.5,
        "spec_decode_per_position_acceptance_rates": [0.8, 0.5],
        "request_rate": float("inf"),
    }
    place = folder / "SERVE-num_spec=3-BENCH-max_concurrency=4"
    write(place / "run=0.json", run | {"request_rate": "inf"})
    write(place / "run=1.failure.json", {"run_number": 1, "error_type": "TimeoutError", "error": "no answer"})
    write(folder / "SERVE-num_spec=9-failure.json", {"error": "did not start"})
    rows = files.read([folder])
    assert [row.status for row in rows] == ["ok", "failed", "failed"]
    assert rows[0].position_rates == [0.8, 0.5]
    assert (rows[0].total_tok_s, rows[0].tpot_mean_ms, rows[0].al) == (900.0, 8.0, 2.5)
    assert rows[1].first_error == "TimeoutError: no answer"
    assert rows[2].name == "SERVE-num_spec=9"


def test_inferencex_rows_come_in_whole(tmp_path: Path) -> None:
    told = {
        "hw": "b300",
        "tp": 8,
        "conc": 64,
        "tput_per_gpu": 1875.0625,
        "output_tput_per_gpu": 1500.0,
        "median_tpot": 0.025,
    }
    (tmp_path / "rows.json").write_text(json.dumps([told]), encoding="utf-8")
    (row,) = files.read([tmp_path / "rows.json"])
    assert (row.total_tok_s, row.output_tok_s, row.tpot_p50_ms, row.gpus) == (15000.5, 12000.0, 25.0, 8)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{}\n", "neither of sglang"),
        ("x", "neither of sglang"),
        ('{"output_throughput": "fast"}\n', "Expected `float"),
    ],
)
def test_what_is_not_understood_is_named(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "f").write_text(content, encoding="utf-8")
    with pytest.raises(ExchangeError, match=words):
        files.read([tmp_path / "f"])


def test_a_folder_without_runs_and_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ExchangeError, match=r"no run=N\.json"):
        files.read([tmp_path])
    with pytest.raises(ExchangeError, match="cannot be read"):
        files.read([tmp_path / "missing"])


def test_ours_go_out_as_tables_with_failed_trials(tmp_path: Path) -> None:
    folder = field_notes(tmp_path / "s").folder
    for name in ("points.csv", "points.parquet"):
        done = CliRunner().invoke(main, ["export", str(folder), "--output", str(tmp_path / name)])
        assert done.exit_code == 0, done.output
        frame = pd.read_csv(tmp_path / name) if name.endswith("csv") else pd.read_parquet(tmp_path / name)
        assert len(frame) == 4 + 5
        assert sorted(frame["status"].unique()) == ["crash", "garbled", "ok"]
    done = CliRunner().invoke(main, ["export", str(folder), "--output", str(tmp_path / "x.xlsx")])
    assert done.exit_code == 1
    assert "the ending says the form" in done.output


def test_ours_go_out_as_inferencex_rows_and_come_back(tmp_path: Path) -> None:
    folder = field_notes(tmp_path / "s").folder
    target = tmp_path / "rows.json"
    arguments = ["export", str(folder), "--output", str(target), "--set", "precision=fp4"]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    first, *_, last = msgspec.json.decode(target.read_bytes())
    assert (first["hw"], first["tp"], first["conc"], first["precision"]) == ("B300", 8, 1, "fp4")
    assert first["output_tput_per_gpu"] == pytest.approx(303.0 / 8)
    assert first["tput_per_gpu"] == pytest.approx(303.0 / 8 * (9000 + 4500) / 4500)
    assert first["median_ttft"] == pytest.approx(0.02)
    assert first["median_intvty"] == pytest.approx(1000 / 3.3)
    assert first["simulated"] is True
    assert (last["status"], last["class"]) == ("garbled", "silent_corruption")
    back = files.read([target])
    assert [row.status for row in back].count("failed") == 5
    assert back[0].output_tok_s == pytest.approx(303.0)
    assert (back[0].budget, back[0].topk, back[0].maxreq) == (8, 4, 128)


def test_the_import_command_writes_marked_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "bench.jsonl", SGLANG)
    done = CliRunner().invoke(main, ["import", str(path), "--output", str(tmp_path / "foreign.jsonl")])
    assert done.exit_code == 0, done.output
    (row,) = msgspec.json.Decoder(ForeignRow).decode_lines((tmp_path / "foreign.jsonl").read_bytes())
    assert row.foreign
    assert b'"foreign":true' in (tmp_path / "foreign.jsonl").read_bytes()
    done = CliRunner().invoke(main, ["import", str(path), "--output", str(tmp_path / "foreign.csv")])
    assert pd.read_csv(tmp_path / "foreign.csv")["foreign"].tolist() == [True]
    done = CliRunner().invoke(main, ["import", str(tmp_path / "none"), "--output", "x.csv"])
    assert done.exit_code == 1


def test_foreign_rows_never_enter_a_sweep(tmp_path: Path) -> None:
    folder = field_notes(tmp_path / "s")
    (row,) = files.read([write(tmp_path / "bench.jsonl", SGLANG)])
    with folder.store.measurements_path.open("ab") as stream:
        stream.write(msgspec.json.encode(row) + b"\n")
    with pytest.raises(StoreError, match="is not understood"):
        folder.store.read_measurements()
    with pytest.raises(StoreError, match=r"1 of 5 lines .* are no measurements of a trial"):
        read(folder.folder)
