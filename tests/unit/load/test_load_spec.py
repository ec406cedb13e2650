"""What a load is asked to do is checked before the first request."""

from __future__ import annotations

from typing import Any

import pytest
from treeline_target import load_spec
from treeline_target.load_spec import ClientKey, SpecError


def test_client_keys_come_busiest_first() -> None:
    keys = load_spec.parse_client_keys(
        [{"concurrency": 1}, {"concurrency": "32", "context": 4000}, {"concurrency": 8}]
    )
    assert keys == [ClientKey(32, 4000), ClientKey(8), ClientKey(1)]
    assert [key.label for key in keys] == ["c32-x4000", "c8", "c1"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "client_keys: the list is empty"),
        ([{"concurrency": 0}], r"client_keys\[0\].concurrency: 0 is not a whole number from 1 to"),
        ([{"concurrency": True}], "True is not a whole number"),
        ([{"concurrency": 2, "context": "long"}], r"client_keys\[0\].context: 'long'"),
        ([{"concurrency": 2}, {"concurrency": 2}], "c2 is given more than once"),
    ],
)
def test_bad_client_keys_are_named(given: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        load_spec.parse_client_keys(given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"id": "a", "expect": "x"}, "a `prompt` text or `messages`"),
        ({"id": "a", "prompt": "?"}, r"canaries\[0\].expect: a regular expression"),
        ({"id": "a", "prompt": "?", "expect": "("}, "is no regular expression"),
        ({"id": "a", "prompt": "?", "expect": "x", "match": "fuzzy"}, "'fuzzy' is not allowed"),
        ({"id": "a", "prompt": "?", "expect": "x", "max_tokens": -1}, r"max_tokens: -1 is not"),
    ],
)
def test_bad_canaries_are_named(given: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        load_spec.parse_canaries([given])


def test_a_canary_is_searched_in_the_answer_or_matched_whole() -> None:
    found, whole = load_spec.parse_canaries(
        [
            {"id": "a", "prompt": "?", "expect": r"def add\(a, b\):\s+return a \+ b"},
            {"id": "b", "prompt": "?", "expect": "yes.", "match": "fullmatch"},
        ]
    )
    assert found.is_right("Sure:\ndef add(a, b):\n    return a + b\n")
    assert not found.is_right("def add(a, b):\n    return a - b\n")
    assert whole.is_right(" yes!\n")
    assert not whole.is_right("oh yes!")
    assert not found.is_right(None)


@pytest.mark.parametrize(
    ("concurrency", "asked", "requests"), [(1, 0, 8), (8, 0, 16), (128, 0, 256), (200, 0, 256)]
)
def test_the_rule_of_requests(make_spec: Any, concurrency: int, asked: int, requests: int) -> None:
    assert make_spec(requests_per_key=asked).requests_for(ClientKey(concurrency)) == requests


def test_a_point_never_has_fewer_requests_than_clients(make_spec: Any) -> None:
    assert make_spec(requests_per_key=10).requests_for(ClientKey(32)) == 32
    assert make_spec(requests_per_key=0).requests_for(ClientKey(300)) == 300
