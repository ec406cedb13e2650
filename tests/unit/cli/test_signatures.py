"""`treeline signatures`: the list, one class, and the check of a user's file."""

from __future__ import annotations

from pathlib import Path

import yaml
from click.testing import CliRunner, Result
from treeline.cli import main
from treeline.signatures import classify_journal
from treeline.signatures.catalogue import load_catalogue

CORPUS = Path(__file__).resolve().parents[2] / "data" / "corpus"
OWN = """\
schema_version: 1
classes:
  - id: moon
    tier: application
    layer: sky
    kind: transient
    literals: ["illegal memory access"]
    advice: Wait.
  - id: disk_full
    tier: application
    layer: host
    kind: none
    literals: ["the barrel is full"]
    advice: Drink.
"""


def run(*arguments: str | Path) -> Result:
    done = CliRunner().invoke(main, ["signatures", *map(str, arguments)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def test_the_list_has_every_class(tmp_path: Path) -> None:
    lines = run("list").stdout.splitlines()
    assert lines[0].split() == ["CLASS", "KIND", "TIER", "PHASES", "LAYER"]
    assert [line.split()[0] for line in lines[1:]] == [one.id for one in load_catalogue([]).signatures]
    own = tmp_path / "own.yml"
    own.write_text(OWN, encoding="utf-8")
    assert any(line.startswith("moon") for line in run("list", "--catalogue", own).stdout.splitlines())


def test_a_class_and_a_near_name() -> None:
    shown = run("show", "illegal_address").stdout
    assert "cudaErrorIllegalAddress" in shown
    assert "config" in shown
    wrong = run("show", "ilegal_adress")
    assert wrong.exit_code == 1
    assert "did you mean illegal_address?" in wrong.stderr


def test_a_class_as_a_file_is_a_catalogue(tmp_path: Path) -> None:
    own = tmp_path / "own.yml"
    own.write_text(run("show", "torch_oom", "--yaml").stdout, encoding="utf-8")
    assert yaml.safe_load(own.read_text(encoding="utf-8"))["schema_version"] == 1
    assert load_catalogue([own]).by_id("torch_oom") == load_catalogue([]).by_id("torch_oom")
    assert run("test", own).exit_code == 0


def test_a_good_file_says_what_it_does_and_what_it_matches(tmp_path: Path) -> None:
    own = tmp_path / "own.yml"
    own.write_text(OWN, encoding="utf-8")
    log = CORPUS / "illegal_address_in_capture.log"
    done = run("test", own, "--on", log)
    assert done.exit_code == 0
    assert f"{own}:3: adds the class moon" in done.stdout
    assert f"{own}:9: replaces the built-in class disk_full" in done.stdout
    assert "moon, line" in done.stdout
    assert classify_journal(log, alive=None).class_ == "illegal_address"


def test_a_broken_file_gives_line_and_reason(tmp_path: Path) -> None:
    own = tmp_path / "own.yml"
    own.write_text(OWN.replace("kind: none", "kind: nothing"), encoding="utf-8")
    done = run("test", own)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"{own}:12: Invalid enum value 'nothing'")
    missing = run("test", tmp_path / "no.yml")
    assert missing.exit_code == 1
    assert "no.yml: No such file" in missing.stderr


def test_a_doubtful_file_is_warned_of(tmp_path: Path) -> None:
    own = tmp_path / "own.yml"
    own.write_text(OWN.replace("the barrel is full", "OOM problem"), encoding="utf-8")
    done = run("test", own)
    assert done.exit_code == 0
    assert f"{own}:9: warning: class 'disk_full': it matches 'OOM problem'" in done.stderr
