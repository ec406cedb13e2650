"""`treeline classify` with several inputs, evidence folders, archives and own classes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from treeline.cli import main

CORPUS = Path(__file__).resolve().parents[2] / "data" / "corpus"
KEYS = ("file", "class", "phase", "kind", "rank", "captured_bs", "first_error", "secondary")
OWN = (
    "schema_version: 1\nclasses:\n  - {id: moon, tier: application, layer: sky, kind: none, "
    "literals: [full moon], advice: Wait.}\n"
)


def run(*arguments: str | Path, stdin: bytes | None = None, **environment: str) -> Result:
    done = CliRunner(env=environment).invoke(main, [*map(str, arguments)], input=stdin)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def objects(done: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_one_object_for_each_input() -> None:
    names = ["port_in_use.log", "healthy_byte_arrays.log", "unknown_keyerror.log", "two_lives.log"]
    done = run("classify", "--json", *(CORPUS / name for name in names))
    found = objects(done)
    assert done.exit_code == 0
    assert [one["file"] for one in found] == [str(CORPUS / name) for name in names]
    labels = {
        case["file"]: case
        for case in map(json.loads, (CORPUS / "cases.jsonl").read_text(encoding="utf-8").splitlines())
    }
    for name, one in zip(names, found, strict=True):
        assert tuple(one)[: len(KEYS)] == KEYS
        assert [one["class"], one["phase"]] == [labels[name]["class"], labels[name]["phase"]]


def test_what_cannot_be_read_does_not_stop_the_others(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    done = run("classify", "--json", "/nowhere", tmp_path / "empty", tmp_path, CORPUS / "port_in_use.log")
    assert done.exit_code == 1
    assert [one["class"] for one in objects(done)] == ["port_in_use"]
    errors = done.stderr.splitlines()
    assert errors[0] == "Error: /nowhere: No such file or directory"
    assert errors[1].startswith(f"Error: {tmp_path}/empty: no line of a log in it")
    assert "there is no journal.jsonl.gz in it" in errors[2]


def test_for_people_each_input_is_named() -> None:
    done = run("classify", CORPUS / "port_in_use.log", CORPUS / "host_oom.log")
    lines = done.stdout.splitlines()
    assert lines[0] == str(CORPUS / "port_in_use.log")
    assert "class:               host_oom (confidence high)" in lines
    assert str(CORPUS) not in run("classify", CORPUS / "port_in_use.log").stdout


@pytest.mark.parametrize(("alive", "class_"), [(True, "ok"), (False, "unknown")])
def test_an_evidence_folder(tmp_path: Path, alive: bool, class_: str) -> None:
    entry = {
        "__REALTIME_TIMESTAMP": "5000000",
        "_PID": "7",
        "_SYSTEMD_INVOCATION_ID": "a" * 32,
        "MESSAGE": "x",
    }
    (tmp_path / "journal.jsonl.gz").write_bytes(gzip.compress(json.dumps(entry).encode() + b"\n"))
    (tmp_path / "evidence.json").write_text(json.dumps({"alive": alive}), encoding="utf-8")
    (one,) = objects(run("classify", "--json", tmp_path))
    assert (one["class"], one["file"]) == (class_, str(tmp_path))
    xid = {
        "__REALTIME_TIMESTAMP": "4000000",  # before the process began: the trial had
        "_TRANSPORT": "kernel",
        "MESSAGE": "NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off.",
    }
    (tmp_path / "kernel.jsonl.gz").write_bytes(gzip.compress(json.dumps(xid).encode() + b"\n"))
    (one,) = objects(run("classify", "--json", tmp_path))
    assert (one["class"], one["kind"]) == ("xid_bus", "node")
    (one,) = objects(run("classify", "--json", "--kernel", tmp_path / "kernel.jsonl.gz", tmp_path))
    assert one["class"] == class_


def test_packed_standard_input() -> None:
    packed = gzip.compress((CORPUS / "host_oom.log").read_bytes())
    (one,) = objects(run("classify", "--json", "-", stdin=packed))
    assert (one["file"], one["class"]) == ("-", "host_oom")


def test_own_classes_by_option_and_environment(tmp_path: Path) -> None:
    own = tmp_path / "own.yml"
    own.write_text(OWN, encoding="utf-8")
    for given, environment in ((["--catalogue", own], {}), ([], {"TREELINE_CATALOGUE": str(own)})):
        done = run("classify", "--json", "--dead", *given, "-", stdin=b"full moon\n", **environment)
        assert objects(done)[0]["class"] == "moon"
    missing = run("classify", "--catalogue", tmp_path / "no.yml", CORPUS / "port_in_use.log")
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert "no.yml: No such file" in missing.stderr


def test_explanations_and_width() -> None:
    path = CORPUS / "illegal_address_in_capture.log"
    done = run("classify", "--explain", "--width", "9", path)
    assert "taken: illegal_address, line" in done.stdout
    assert "not taken: sigquit" in done.stdout
    assert "graphs were captured for 17 tokens per request, expected is 9" in done.stdout
    (one,) = objects(run("classify", "--explain", "--json", path))
    assert one["remarks"][0]["class"] == "illegal_address"
    assert one["rows"] == 64 * 17


def test_a_slower_engine_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from treeline.signatures import classify

    monkeypatch.setattr(classify, "search_engine", lambda: ("re2", "hyperscan cannot be used: slower"))
    done = run("classify", CORPUS / "port_in_use.log", CORPUS / "host_oom.log")
    assert done.exit_code == 0
    assert done.stderr.splitlines() == ["note: hyperscan cannot be used: slower"]
