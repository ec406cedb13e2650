"""The catalogue: what it must hold, what it refuses, how a user extends it, and that it loads fast."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from treeline.signatures import catalogue as loader
from treeline.signatures import classify_journal
from treeline.signatures.catalogue import BUILTIN, CatalogueError, load_catalogue

KINDS = {
    "config": """
        cublas_execution_failed cublas_not_supported cublas_alloc_failed cublas_internal illegal_address
        illegal_instruction device_assert launch_failure misaligned launch_resources invalid_config
        stream_capture graph_capture_failed torch_oom kv_pool_too_small flashinfer_alloc trtllm_gemm_runner
        triton_smem shape_mismatch_verify custom_allreduce nan_logits bad_args config_rejected
        silent_corruption spec_disabled""",
    "node": """
        fabric_manager driver_mismatch device_busy ecc xid_memory xid_link xid_bus xid_gsp xid_recovery""",
    "transient": "host_oom port_in_use nccl_remote nccl_watchdog sglang_watchdog",
    "setup": """
        no_kernel_image invalid_ordinal nvls nccl_system jit_build model_missing tokenizer numa_exec disk_full
        unit_setup""",
    "none": "ok unknown pool_leak nccl_cuda kv_retract sigquit xid_app",
}
NEEDED = {class_: kind for kind, classes in KINDS.items() for class_ in classes.split()}

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


def test_every_class_is_there_with_its_kind() -> None:
    kinds = {signature.id: signature.kind for signature in load_catalogue().signatures}
    assert kinds == NEEDED


def test_every_failing_class_says_what_to_try() -> None:
    signatures = load_catalogue().signatures
    assert [s.id for s in signatures if not s.advice] == ["ok"]
    assert [s.id for s in signatures if s.advice and not s.advice.endswith(".")] == []


def test_every_failing_class_has_a_phase_and_a_public_report() -> None:
    described = [s for s in load_catalogue().signatures if s.id not in ("ok", "unknown")]
    assert [s.id for s in described if not s.phases or not s.layer] == []
    reference = re.compile(r"[\w.-]+/[\w.-]+#[1-9]\d*")
    wrong = [s.id for s in described if not s.references or not all(map(reference.fullmatch, s.references))]
    assert wrong == []


def test_patterns_suit_engines_that_match_in_linear_time() -> None:
    re2 = pytest.importorskip("re2")
    catalogue = load_catalogue()
    patterns = [pattern for signature in catalogue.signatures for pattern in signature.regex]
    assert patterns
    for pattern in [*patterns, *catalogue.consequence_exceptions]:
        re2.compile(pattern)


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
