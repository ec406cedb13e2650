"""The order of the hosts and the sizes of the waves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from treeline.rollout.errors import RolloutRefusedError
from treeline.rollout.waves import DEFAULT, parse_sizes, plan


def test_canaries_of_all_classes_come_first() -> None:
    found = plan({"b": ["h5", "h6", "h7", "h8"], "a": ["h1", "h2", "h3", "h4"]}, parse_sizes(DEFAULT))
    assert [wave.hosts for wave in found] == [
        ("h1",),
        ("h5",),
        ("h2",),
        ("h6",),
        ("h3", "h4"),
        ("h7", "h8"),
    ]
    assert [wave.canary for wave in found] == [True, True, False, False, False, False]


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(1, 100), st.booleans()), min_size=1, max_size=4),
)
def test_every_host_has_one_turn(counts: list[int], sizes: list[tuple[int, bool]]) -> None:
    classes = {f"c{n}": [f"c{n}h{k}" for k in range(count)] for n, count in enumerate(counts)}
    hosts = [host for wave in plan(classes, sizes) for host in wave.hosts]
    assert sorted(hosts) == sorted(host for members in classes.values() for host in members)


@pytest.mark.parametrize("text", ["", "0", "1,", "101 %", "-1", "half", "1; 2"])
def test_sizes_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(RolloutRefusedError, match="waves: "):
        parse_sizes(text)
