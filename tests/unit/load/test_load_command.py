"""`treeline load` and the Ansible module: the same load from here and from a playbook."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from misbehaving_peer import Peer
from treeline.cli.load import command

ROOT = Path(__file__).resolve().parents[3]


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(command, list(arguments))
    return result.exit_code, result.output


def test_it_shows_a_table_and_ends_well(peer: Peer) -> None:
    peer.metrics = lambda: f"sglang:num_running_reqs {peer.flying}\n"
    code, shown = run(peer.address, "--concurrency", "1,4", "--max-tokens", "12", "--requests", "8")
    assert code == 0, shown
    rows = [line.split() for line in shown.splitlines() if line.strip()[:1].isdigit()]
    assert [(row[0], row[3], row[5]) for row in rows] == [("4", "8/8", "3.000"), ("1", "8/8", "3.000")]


def test_it_prints_everything_as_json(peer: Peer, tmp_path: Path) -> None:
    out = tmp_path / "kept"
    result = CliRunner().invoke(
        command,
        [
            peer.address,
            "--concurrency",
            "2",
            "--context",
            "60,30",
            "--requests",
            "4",
            "--json",
            "--out",
            str(out),
        ],
    )
    found = json.loads(result.stdout)
    assert [(point["concurrency"], point["context"]) for point in found["points"]] == [(2, 60), (2, 30)]
    assert all(check["tolerance"] for check in found["points"][0]["cross_checks"])
    assert Path(found["requests_file"]) == out / "requests.ndjson.gz"
    assert Path(found["requests_file"]).exists()


def test_failures_are_told_and_end_badly(peer: Peer) -> None:
    peer.modes = ["error_frame"]
    code, shown = run(peer.address, "--concurrency", "2", "--requests", "2")
    assert code == 1
    assert "2 requests failed (2 x error_in_stream); the first: the batch is broken" in " ".join(
        shown.split()
    )


def test_prompts_of_a_file_are_sent(peer: Peer, tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps({"prompt": f"my own prompt {at}"}) + "\n" for at in range(3)))
    code, shown = run(peer.address, "--concurrency", "2", "--requests", "4", "--prompts", str(path))
    assert code == 0, shown
    assert all("my own prompt" in prompt for prompt in peer.prompts)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ftp://x"], "URL: 'ftp://x' is no address"),
        (["http://x", "--concurrency", "1,zero"], "whole numbers above 0"),
        (["http://x", "--soak", "long"], "seconds, or a number with s, m or h"),
        (["http://x", "--rate", "-3"], "rate: -3.0 is not a number from"),
        (["http://x", "--repeats", "99"], "min_repeats: 99 is not a whole number from 1 to 50"),
    ],
)
def test_what_cannot_be_done_is_named(arguments: list[str], words: str) -> None:
    code, shown = run(*arguments)
    assert code != 0
    assert words in " ".join(shown.split())


def test_help_teaches() -> None:
    code, shown = run("--help")
    assert code == 0
    for words in ("treeline load http://127.0.0.1:30000 --concurrency 1,8,32", "--target-rel-ci", "ShareGPT"):
        assert words in shown


def test_a_playbook_gets_the_same_and_the_texts_stay_out_of_its_output(peer: Peer, tmp_path: Path) -> None:
    arguments: dict[str, Any] = {
        "base_url": peer.address,
        "client_keys": [{"concurrency": 2}],
        "canaries": [{"id": "capital", "prompt": "What is the capital?", "expect": "Paris"}],
        "prompts_seed": "seed",
        "requests_per_key": 4,
        "max_tokens": 12,
        "out_dir": str(tmp_path / "out"),
    }
    peer.answers = {"What is the capital?": "Paris"}
    done = subprocess.run(
        [
            *(sys.executable, "-m", "ansible", "adhoc", "localhost", "--connection", "local"),
            *("--module-name", "treeline_load", "--args", json.dumps(arguments)),
            *("--extra-vars", f"ansible_python_interpreter={sys.executable}"),
        ],
        env={
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
        },
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.partition("=>")[2])
    (point,) = found["points"]
    assert (found["outcome"], point["ok"], point["al"]) == ("done", 4, 3.0)
    assert [(one["id"], one["ok"]) for one in found["canaries"]] == [("capital", True)] * 2
    assert {check["name"] for check in point["cross_checks"]} >= {"al_by_metrics", "al_by_ranks"}
    assert len(done.stdout) < 20_000
    assert any("def " in prompt or "the" in prompt for prompt in peer.prompts)
