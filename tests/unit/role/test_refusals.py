"""What the role refuses before it touches a host, and that it says why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .conftest import Cases

# case: (variables, what the message must contain)
REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "budget": ({"sglang_ddtree_budget": -1}, ["sglang_ddtree_budget: -1", "from 0"]),
    "text": ({"sglang_ddtree_maxreq": "many"}, ["sglang_ddtree_maxreq: many"]),
    "port": ({"sglang_ddtree_port": 70000}, ["sglang_ddtree_port: 70000", "to 65535"]),
    "share": ({"sglang_ddtree_mem_fraction_static": 1.5}, ["sglang_ddtree_mem_fraction_static: 1.5"]),
    "window": (
        {"sglang_ddtree_start_limit_interval": 1830},
        ["sglang_ddtree_start_limit_interval: 1830 s is too short", "= 1830 s"],
    ),
    "relative": ({"sglang_ddtree_model_path": "Kimi-K2.6"}, ["sglang_ddtree_model_path: Kimi-K2.6"]),
    "root": ({"sglang_ddtree_user": "root"}, ["must not be root"]),
    "open": (
        {"sglang_ddtree_host": "0.0.0.0"},  # noqa: S104 - a value under test
        ["sglang_ddtree_host: 0.0.0.0 is not loopback", "sglang_ddtree_api_key"],
    ),
    "shortkey": ({"sglang_ddtree_host": "10.0.0.1", "sglang_ddtree_api_key": "short"}, ["16 characters"]),
    "owned": ({"sglang_ddtree_extra_args": {"--port": 1}}, ["--port"]),
    "swept": (
        {"sglang_ddtree_extra_args": {"--speculative-ddtree-budget": 1}},
        ["--speculative-ddtree-budget"],
    ),
    "trialid": ({"sglang_ddtree_environment": {"TREELINE_TRIAL_ID": "x"}}, ["may not set TREELINE_TRIAL_ID"]),
    "dialectenv": (
        {
            "sglang_ddtree_dialect": "pr29907",
            "sglang_ddtree_environment": {"SGLANG_DDTREE_MAX_TOPK": 6},
        },
        ["may not set SGLANG_DDTREE_MAX_TOPK", "dialect pr29907"],
    ),
    "option": ({"sglang_ddtree_service_options": {"Restart": "no"}}, ["Restart. Allowed", "Not allowed:"]),
    "optionline": ({"sglang_ddtree_service_options": {"Nice": "5\nUser=root"}}, ["values of one line"]),
    "rule": ({"sglang_ddtree_dialect": "pr29907"}, ["Dialect pr29907", "--page-size 1"]),
    "dialect": (
        {"sglang_ddtree_dialect": "nope"},
        ["sglang_ddtree_dialect: nope is not known", "dflash-0.5.23"],
    ),
    "secret": ({"sglang_ddtree_secret_environment": {"B": "b\x1b"}}, ["the value of B"]),
    "control": ({"sglang_ddtree_environment": {"A": "a\x1b"}}, ["control character"]),
    "sametrialport": ({"sglang_ddtree_trial_port": 30000}, ["sglang_ddtree_trial_port 30000"]),
    "sametrialunit": (
        {"sglang_ddtree_trial_unit": "sglang-ddtree.service"},
        ["sglang_ddtree_trial_unit 'sglang-ddtree.service'", "none of the found units"],
    ),
    "foundunits": ({"sglang_ddtree_found_units": ["a.service\nX=1"]}, ["at least one unit name"]),
}


TRIAL_ONLY = {"sametrialport", "sametrialunit", "foundunits"}


@pytest.fixture(scope="module")
def said(play: Callable[[str, Cases], dict[str, Any]]) -> dict[str, list[str]]:
    cases = {name: variables | {"trial_only": name in TRIAL_ONLY} for name, (variables, _) in REFUSED.items()}
    return play("refuse.yml", cases)


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_refused_with_the_reason(said: dict[str, list[str]], case: str) -> None:
    assert said[case], "it was not refused"
    for words in REFUSED[case][1]:
        assert words in " ".join(said[case])
