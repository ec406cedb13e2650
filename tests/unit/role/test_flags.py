"""Flags as a mapping become words of a command line."""

from __future__ import annotations

import pytest
from treeline.flags import flag_words


def test_each_kind_of_value() -> None:
    flags = {"--a": True, "--b": False, "--c": None, "--d": 1, "--e": ["x", 2], "--f": "", "--g": 0.5}
    assert flag_words(flags) == ["--a", "--d", "1", "--e", "x", "2", "--f", "", "--g", "0.5"]


def test_dashes_may_be_left_out() -> None:
    assert flag_words({"fault-profile": "none", "--time-scale": 0.01}) == [
        *("--fault-profile", "none"),
        *("--time-scale", "0.01"),
    ]


@pytest.mark.parametrize("name", ["-a", "--", "", "--a b", "--a=b", "---a"])
def test_what_is_no_long_flag_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not a flag"):
        flag_words({name: 1})


def test_a_mapping_is_refused() -> None:
    with pytest.raises(ValueError, match="--a is a mapping"):
        flag_words({"--a": {"x": 1}})
