"""Plain values and the lines for people."""

from __future__ import annotations

import msgspec
import pytest
from store_builders import finished, item, started
from treeline.plain import clean, to_plain
from treeline.progress import duration, time_left, trial_line, verdict_line


class Tagged(str):
    """Stands for a text that Ansible has tagged."""


def test_plain_values_are_exact_types() -> None:
    plain = to_plain({Tagged("a"): (Tagged("x"), 1, True, None, b"\xff", {"b": {1.5}})})
    assert plain == {"a": ["x", 1, True, None, "\ufffd", {"b": [1.5]}]}
    assert type(next(iter(plain))) is str
    assert type(plain["a"][0]) is str
    assert to_plain([float("nan"), float("inf"), 2**70, "\udc80"]) == [None, None, str(2**70), "?"]


def test_texts_are_cleaned_and_bounded() -> None:
    assert clean("\x1b[1;31mred\x1b[0m\x07\r\n ") == "red"
    assert clean("a\x00b\x9bc") == "abc"
    assert len(clean("x" * 5000, 100)) == 100
    assert clean(None) == "None"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1, "0s"),
        (0.4, "0s"),
        (45.4, "45s"),
        (59.6, "1m"),
        (80, "1m20s"),
        (480, "8m"),
        (605, "10m"),
        (2520, "42m"),
        (3599, "1h00m"),
        (11100, "3h05m"),
        (90000, "25h00m"),
    ],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_time_left_is_measured_shared_by_hosts_and_not_invented() -> None:
    line = finished(started(1))
    void = finished(started(2), "void", "void")
    assert time_left([line], 5, 1, None) == 300
    assert time_left([line, void], 5, 2, 1000) == 180
    assert time_left([void], 5, 2, 1000) == 3000
    assert time_left([], 5, 1, None) is None


def test_the_line_of_a_trial() -> None:
    assert trial_line("lab1", item(16), 3, 7, 80, 120) == (
        "[lab1] trial 3 of 7  budget 16 topk 8 maxreq 64 graphs on  (explore: grid)  "
        "elapsed 1m20s, about 2m left"
    )


def test_the_line_of_a_verdict() -> None:
    of = started(1, item(16))
    good = finished(of, al=4.5, throughput={"1": 303.0, "128": None}, simulated=True)
    assert verdict_line(good) == (
        "[lab1] b16 k8 m64 graphs on: ok, acceptance length 4.50, 303 tok/s at 1 (simulated timing)"
    )
    crash = finished(
        of, "crash", "bad", class_="illegal_address", phase="graph_capture", rank=0, captured_bs=64
    )
    assert verdict_line(crash) == (
        "[lab1] b16 k8 m64 graphs on: crash illegal_address in graph_capture (rank 0, bs 64)"
    )
    rare = msgspec.structs.replace(item(16).key, block_size=16, graph_max_bs=32, attention_backend="triton")
    assert verdict_line(finished(started(1, item(16), key=rare))).startswith(
        "[lab1] b16 k8 m64 block size 16 graphs on graph cap 32 attention triton: ok"
    )
    void = finished(of, "void", "void", step="restart", first_error="nothing started\nmore")
    assert verdict_line(void) == "[lab1] b16 k8 m64 graphs on: void at step restart: nothing started"
