"""The settings of the playbooks: values and types agree, and repeats mean what the load takes them for."""

from __future__ import annotations

from typing import Any

import jinja2
import pytest
import yaml
from treeline_target import load_spec

from .conftest import REPO

ROLE = REPO / "roles" / "treeline"
DEFAULTS: dict[str, Any] = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text(encoding="utf-8"))
SPECS = yaml.safe_load((ROLE / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))
OPTIONS: dict[str, dict[str, Any]] = SPECS["argument_specs"]["main"]["options"]
TYPES = {"str": str, "path": str, "int": int, "float": float, "bool": bool, "list": list, "dict": dict}


def test_every_default_is_specified_with_its_value_and_type() -> None:
    assert {name: option["default"] for name, option in OPTIONS.items()} == DEFAULTS
    for name, value in DEFAULTS.items():
        assert OPTIONS[name]["description"]
        if not (isinstance(value, str) and "{{" in value):
            assert type(value) is TYPES[OPTIONS[name]["type"]], name


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, load_spec.repeats_of(None, None, None, None)),
        ({"treeline_repeats": 4}, load_spec.repeats_of(4, None, None, None)),
        ({"treeline_target_rel_ci": "0.01"}, load_spec.repeats_of(None, None, None, 0.01)),
        (
            {"treeline_repeats": "5", "treeline_target_rel_ci": 0.01},
            load_spec.repeats_of(None, 5, None, 0.01),
        ),
        ({"treeline_max_repeats": 6}, load_spec.repeats_of(None, None, 6, None)),
        (
            {"treeline_min_repeats": 2, "treeline_target_rel_ci": 0.02},
            load_spec.repeats_of(None, 2, None, 0.02),
        ),
        (
            {"treeline_min_repeats": 12, "treeline_target_rel_ci": 0.02},
            load_spec.repeats_of(None, 12, None, 0.02),
        ),
    ],
)
def test_repeats_that_are_not_given_are_the_loads_own(
    given: dict[str, Any], expected: load_spec.Repeats
) -> None:
    values = {"treeline_repeats": 1, "treeline_target_rel_ci": 0.0} | given
    for name in ("treeline_min_repeats", "treeline_max_repeats"):
        text = jinja2.Template(DEFAULTS[name], autoescape=False)
        values.setdefault(name, text.render(**values))
    low, high = int(values["treeline_min_repeats"]), int(values["treeline_max_repeats"])
    assert (low, high) == (expected.low, expected.high)


def test_bounds_that_are_not_given_are_the_loads_own() -> None:
    limits = load_spec.Limits()
    assert DEFAULTS["treeline_chunk_timeout_s"] == limits.chunk_s
    assert DEFAULTS["treeline_no_token_timeout_s"] == limits.no_token_s
