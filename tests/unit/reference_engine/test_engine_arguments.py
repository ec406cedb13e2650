"""Flags and their resolution."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from treeline_reference_engine import cli
from treeline_reference_engine.cli import build_parser
from treeline_reference_engine.server_args import ServerArgs, bucket_list, resolve


def _resolve(line: str, environment: dict[str, str] | None = None) -> ServerArgs:
    return resolve(build_parser().parse_args(["--model-path", "m", *line.split()]), environment or {})


DDTREE = "--speculative-algorithm ddtree"


def test_bucket_list() -> None:
    assert bucket_list(5) == [1, 2, 3, 4, 5]
    assert bucket_list(33) == [1, 2, 3, 4, 5, 6, 7, 8, *range(10, 33, 2), 33]
    assert bucket_list(300)[-4:] == [256, 272, 288, 300]


@pytest.mark.parametrize(
    ("line", "width", "sizes_end"),
    [
        (f"{DDTREE} --speculative-ddtree-budget 16 --max-running-requests 64", 17, 64),
        (f"{DDTREE}", 8, 48),
        ("", 1, 256),
        ("--speculative-algorithm DFLASH --speculative-dflash-block-size 4", 4, 48),
        (f"{DDTREE} --cuda-graph-max-bs-decode 500 --max-running-requests 9", 8, 9),
        (f"{DDTREE} --cuda-graph-max-bs-decode 6 --max-running-requests 9", 8, 6),
    ],
)
def test_width_and_capture_sizes(line: str, width: int, sizes_end: int) -> None:
    args = _resolve(line)
    assert args.width == width
    assert args.capture_sizes[-1] == sizes_end
    assert args.capture_sizes[0] == 1


@pytest.mark.parametrize(
    "flag", ["--disable-cuda-graph", "--disable-decode-cuda-graph", "--cuda-graph-backend-decode=disabled"]
)
def test_eager(flag: str) -> None:
    assert _resolve(f"{DDTREE} {flag}").capture_sizes == []


def test_topk_without_the_flag() -> None:
    line = f"{DDTREE} --speculative-ddtree-budget 16"
    assert _resolve(line).topk == 16
    assert _resolve(line, {"SGLANG_DDTREE_MAX_TOPK": "6"}).topk == 3
    assert _resolve(f"{DDTREE} --speculative-ddtree-budget 64", {"SGLANG_DDTREE_MAX_TOPK": "6"}).topk == 6


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"{DDTREE} --speculative-ddtree-budget 0", "--speculative-ddtree-budget must be >= 1, but got 0"),
        (f"{DDTREE} --speculative-num-draft-tokens 1", "must be >= 2"),
        (f"{DDTREE} --speculative-num-draft-tokens 8 --speculative-dflash-block-size 4", "they must match"),
        ("--speculative-algorithm MEDUSA", "MEDUSA"),
        ("--max-running-requests 0", "--max-running-requests must be >= 1"),
    ],
)
def test_rejected_values(line: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        _resolve(line)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--speculative-ddtree-bugdet 8", "error: unrecognized arguments: --speculative-ddtree-bugdet 8"),
        ("--cuda-graph-max-bs 8", "error: ambiguous option: --cuda-graph-max-bs could match"),
        ("--fault-profile nope", "error: --fault-profile: 'nope'"),
        ("--max-running-requests many", "error: argument --max-running-requests"),
    ],
)
def test_bad_arguments_end_with_2(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--model-path", "m", *line.split()])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_missing_model_ends_with_1_and_the_loaders_text(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "treeline_reference_engine", "--model-path"]
    source = str(Path(cli.__file__).resolve().parents[1])
    for path, text in ((tmp_path / "no", "OSError: We couldn't connect to"), (tmp_path, "named config.json")):
        done = subprocess.run(
            [*command, str(path)], env={"PYTHONPATH": source}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert text in done.stderr


def test_api_key_is_masked_in_the_log_line() -> None:
    line = _resolve("--api-key sesame").line()
    assert line.startswith("server_args=ServerArgs(model_path='m'")
    assert "sesame" not in line
