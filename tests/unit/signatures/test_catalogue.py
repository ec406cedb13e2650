"""The catalogue: what it must hold, what it refuses, how a user extends it, and that it loads fast."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from treeline.signatures import catalogue as loader
from treeline.signatures import classify_journal
from treeline.signatures.catalogue import BUILTIN, CatalogueError, load_catalogue

NEEDED = {
    "cublas_execution_failed": "config",
    "illegal_address": "config",
    "torch_oom": "config",
    "bad_args": "config",
    "config_rejected": "config",
    "silent_corruption": "config",
    "spec_disabled": "config",
    "model_missing": "setup",
    "disk_full": "setup",
    "no_kernel_image": "setup",
    "port_in_use": "transient",
    "host_oom": "transient",
    "nccl_remote": "transient",
    "sglang_watchdog": "transient",
    "xid_bus": "node",
    "ecc": "node",
    "fabric_manager": "node",
    "unknown": "none",
    "ok": "none",
    "sigquit": "none",
    "graph_capture_failed": "config",
}

OWN = """
schema_version: 1
classes:
  - id: moon_phase
    tier: application
    layer: sky
    kind: transient
    literals: ["full moon tonight"]
    advice: Wait.
  - id: disk_full
    tier: application
    layer: host
    kind: none
    literals: ["the barrel is full"]
    advice: Drink.
"""


def test_every_class_that_a_verdict_needs_is_there_with_its_kind() -> None:
    kinds = {signature.id: signature.kind for signature in load_catalogue().signatures}
    assert NEEDED.items() <= kinds.items()


def test_every_failing_class_says_what_to_try() -> None:
    assert [s.id for s in load_catalogue().signatures if not s.advice] == ["ok"]


def test_every_literal_passes_a_gate() -> None:
    catalogue = load_catalogue()
    for signature in catalogue.signatures:
        for literal in signature.literals:
            assert any(gate in literal for gate in catalogue.gates), literal


def test_a_user_adds_and_replaces_classes(tmp_path: Path) -> None:
    own = tmp_path / "own.yml"
    own.write_text(OWN, encoding="utf-8")
    assert classify_journal(["it is full moon tonight"], alive=False, catalogue=own).class_ == "moon_phase"
    assert classify_journal(["the barrel is full"], alive=False, catalogue=own).kind == "none"
    assert classify_journal(["No space left on device"], alive=False, catalogue=own).class_ == "unknown"
    assert classify_journal(["No space left on device"], alive=False).class_ == "disk_full"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("kind: transient", "kind: bad_luck", "Invalid enum value 'bad_luck'"),
        ("tier: application\n    layer: sky", "tier: sky\n    layer: sky", "Invalid enum value 'sky'"),
        ('literals: ["full moon tonight"]', "literals: []", "literals is empty"),
        ('"full moon tonight"', '"mo"', "4 or more printable ASCII characters"),
        ('"full moon tonight"', "'say \"moon\"'", "4 or more printable ASCII characters"),
        ("advice: Wait.", "advice: Wait.\n    regex: ['(']", "regex '(' is not valid"),
        (
            "advice: Wait.",
            "advice: Wait.\n    regex: ['(?P<host>x)']",
            "group 'host'; allowed are pid and name",
        ),
        ("id: moon_phase", "id: Moon", "lower case letters"),
        ("layer: sky", "layers: sky", "unknown field"),
        ("schema_version: 1", "schema_version: 9", "Invalid enum value 9"),
        ("classes:", "classes: [", "own.yml"),
    ],
)
def test_a_bad_catalogue_is_refused_with_its_name(
    tmp_path: Path, before: str, after: str, expected: str
) -> None:
    own = tmp_path / "own.yml"
    assert before in OWN
    own.write_text(OWN.replace(before, after, 1), encoding="utf-8")
    with pytest.raises(CatalogueError) as caught:
        load_catalogue(own)
    assert str(own) in str(caught.value)
    assert expected in str(caught.value)


def test_a_broken_cache_and_a_read_only_home_do_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    loader._load.cache_clear()
    expected = load_catalogue()
    (cached,) = (tmp_path / "treeline").glob("signatures-*.msgpack")
    cached.write_bytes(b"\xc1 broken")
    loader._load.cache_clear()
    assert load_catalogue() == expected
    monkeypatch.setenv("XDG_CACHE_HOME", str(BUILTIN))  # a file: nothing can be stored below it
    loader._load.cache_clear()
    assert load_catalogue() == expected


def test_importing_and_loading_stays_light() -> None:
    code = (
        "import sys\n"
        "from treeline.signatures import classify_journal\n"
        "classify_journal(['RuntimeError: x'], alive=False)\n"
        "heavy = {'pandas', 'pyarrow', 'numpy', 'yaml', 'ansible', 'click', 'rich'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)\n"
    )
    loader._load.cache_clear()
    load_catalogue()  # leaves the compiled catalogue in the cache
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
