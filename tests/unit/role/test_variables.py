"""defaults/main.yml gives values, meta/argument_specs.yml types; they agree, and the README is complete."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from treeline import dialects

from .conftest import REPO, ROLE

DEFAULTS: dict[str, Any] = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text(encoding="utf-8"))
SPECS: dict[str, Any] = yaml.safe_load((ROLE / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))[
    "argument_specs"
]
README = (ROLE / "README.md").read_text(encoding="utf-8")
TYPES = {"str": str, "path": str, "int": int, "float": float, "bool": bool, "list": list, "dict": dict}


def options() -> dict[str, dict[str, Any]]:
    merged: dict[str, dict[str, Any]] = {}
    for spec in SPECS.values():
        merged |= spec["options"]
    return merged


def test_every_default_is_specified_and_every_option_has_a_default() -> None:
    assert set(options()) == set(DEFAULTS)


@pytest.mark.parametrize("entry", SPECS)
def test_the_values_are_equal(entry: str) -> None:
    for name, option in SPECS[entry]["options"].items():
        assert option["default"] == DEFAULTS[name], name


@pytest.mark.parametrize("name", DEFAULTS)
def test_the_default_has_its_type_and_is_a_choice(name: str) -> None:
    option, value = options()[name], DEFAULTS[name]
    assert option["description"]
    if value is None or (isinstance(value, str) and "{{" in value):
        return
    assert type(value) is TYPES[option["type"]]
    if "choices" in option:
        assert value in option["choices"]


@pytest.mark.parametrize("name", DEFAULTS)
def test_the_readme_has_a_row_for_it(name: str) -> None:
    assert re.search(rf"^\| `{name}` \|", README, re.MULTILINE)


def test_names_carry_the_role() -> None:
    assert all(name.startswith("sglang_ddtree_") for name in DEFAULTS)


def test_the_lab_sets_only_variables_that_exist() -> None:
    lab = yaml.safe_load((REPO / "inventory/lab/group_vars/sglang/role.yml").read_text(encoding="utf-8"))
    assert set(lab) <= set(DEFAULTS)


def test_the_dialects_are_complete_and_load() -> None:
    assert {"field", "pr29907", "dflash-0.5.23", "dflash-0.5.12"} <= set(dialects.names())
    for name in dialects.names():
        assert dialects.load(name).name == name


@pytest.mark.parametrize(
    ("name", "budget_flag", "topk_flag", "cap_flag", "width"),
    [
        ("field", True, True, "--cuda-graph-max-bs-decode", 17),
        ("pr29907", True, False, "--cuda-graph-max-bs-decode", 17),
        ("dflash-0.5.23", False, False, "--cuda-graph-max-bs-decode", 8),
        ("dflash-0.5.12", False, False, "--cuda-graph-max-bs", 8),
    ],
)
def test_what_each_dialect_says(
    name: str, budget_flag: bool, topk_flag: bool, cap_flag: str, width: int
) -> None:
    dialect = dialects.load(name)
    key = {"budget": 16, "topk": 8, "maxreq": 64, "block_size": 8, "graphs": True, "graph_max_bs": 32}
    words = dialects.argv(dialect, key)
    assert ("--speculative-ddtree-budget" in words) is budget_flag
    assert ("--speculative-ddtree-topk" in words) is topk_flag
    assert words[words.index(cap_flag) + 1] == "32"
    assert words[words.index("--max-running-requests") + 1] == "64"
    assert dialects.expected_width(dialect, key) == width
    assert "--disable-cuda-graph" in dialects.argv(dialect, key | {"graphs": False})
