"""Language is left alone, noise is flagged, and what is too short is said to be so."""

from __future__ import annotations

import random
import re
import sysconfig
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from treeline_target import garble

PROSE = Path(__file__).resolve().parents[3] / "analysis/treeline/data/prompts/prose.txt"
TEXTS = Path(__file__).resolve().parents[2] / "data/texts"
STDLIB = Path(sysconfig.get_paths()["stdlib"])
CODE = "\n".join(
    (STDLIB / f"{name}.py").read_text("utf-8") for name in ("argparse", "ast", "csv", "heapq", "textwrap")
)
ENGLISH = "\n".join(re.findall(r'"""(.*?)"""', CODE, re.DOTALL)) + PROSE.read_text("utf-8")
CHINESE = (TEXTS / "chinese.txt").read_text("utf-8")
RUSSIAN = (TEXTS / "russian.txt").read_text("utf-8")
VOCABULARY = sorted(set(re.findall(r" ?[A-Za-z_]+|[^\w\s]", CODE + ENGLISH)))
SCRIPTS = ["кни", "га", "本", "书", "שלום", "عرب", "ไทย", "हिं", "the", "ing", "ção", "λόγος", "한국", "ქარ"]  # noqa: RUF001


def windows(text: str, size: int) -> st.SearchStrategy[str]:
    return st.integers(0, len(text) - size).map(lambda at: text[at : at + size])


@pytest.mark.parametrize("text", [ENGLISH, CODE], ids=["english", "python"])
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_ordinary_text_is_not_flagged(text: str, data: st.DataObject) -> None:
    window = data.draw(st.sampled_from([300, 600, 2000]).flatmap(lambda size: windows(text, size)))
    assert garble.inspect(window).verdict != "flagged"


@settings(max_examples=100, deadline=None)
@given(window=st.sampled_from([120, 200, 300]).flatmap(lambda size: windows(CHINESE, size)))
def test_chinese_is_not_flagged(window: str) -> None:
    assert garble.inspect(window).verdict == "clean"


@pytest.mark.parametrize(
    "text",
    [
        RUSSIAN,
        RUSSIAN + CHINESE + ENGLISH[:400],
        "I cannot help with that. " * 20,
        "| name | value |\n|------|-------|\n" + "\n".join(f"| row {n} | {n * 7} |" for n in range(20)),
        "Heading\n=======\n\n" + ENGLISH[:400],
        "\n".join(f"{n}) item number {n} of the list" for n in range(1, 30)),
        "{" + ", ".join(f'"key_{n}": [{n}, {{"a": ({n})}}]' for n in range(30)) + "}",
        "Sum: α + β = γ, where α, β ∈ ℝ and 𝑥² ≤ µ. " + ENGLISH[:300],  # noqa: RUF001
    ],
)
def test_unusual_text_is_not_flagged(text: str) -> None:
    assert garble.inspect(text).verdict == "clean"


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**9), tokens=st.sampled_from([128, 256, 512]))
def test_a_salad_of_vocabulary_is_flagged(seed: int, tokens: int) -> None:
    dice = random.Random(seed)
    report = garble.inspect("".join(dice.choice(VOCABULARY) for _ in range(tokens)))
    assert report.verdict == "flagged"


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**9), tokens=st.integers(64, 300))
def test_a_salad_of_scripts_is_flagged(seed: int, tokens: int) -> None:
    dice = random.Random(seed)
    report = garble.inspect("".join(dice.choice(SCRIPTS) + dice.choice(["", " "]) for _ in range(tokens)))
    assert "mixed_scripts" in report.reasons


@settings(max_examples=100, deadline=None)
@given(
    window=windows(ENGLISH, 400),
    broken=st.lists(st.integers(0, 399), min_size=16, max_size=100, unique=True),
    sign=st.sampled_from("\ufffd\x00\x1b\ue000\U000f0000"),
)
def test_unreadable_characters_are_flagged(window: str, broken: list[int], sign: str) -> None:
    text = "".join(sign if at in broken else character for at, character in enumerate(window))
    assert "unreadable" in garble.inspect(text).reasons


@settings(max_examples=100, deadline=None)
@given(
    unit=st.sampled_from(["the", " the", "!", "0", "的", " a b", "\n", ").", "=" * 5]),
    times=st.integers(60, 400),
)
def test_one_token_for_ever_is_flagged(unit: str, times: int) -> None:
    assert garble.inspect("It begins well: " + unit * times).reasons[0] == "one_token"


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**9))
def test_brackets_at_random_and_noise_are_flagged(seed: int) -> None:
    dice = random.Random(seed)
    brackets = " ".join(dice.choice("([{}])") + dice.choice(["x", "y", "if", "+"]) for _ in range(400))
    assert "crossed_brackets" in garble.inspect(brackets).reasons
    noise = "".join(chr(dice.randrange(33, 127)) for _ in range(2000))
    assert "incompressible" in garble.inspect(noise).reasons


@pytest.mark.parametrize("text", ["", " ", "Paris", "42", "def add(a, b):\n    return a + b\n", "OK. " * 3])
def test_too_short_is_not_available(text: str) -> None:
    assert garble.inspect(text) == garble.Report("not available", (), garble.inspect(text).scores)


def test_short_but_broken_is_flagged_all_the_same() -> None:
    assert garble.inspect("\ufffd\ufffd\ufffd a").verdict == "flagged"
    assert garble.inspect("\n" * 60).verdict == "flagged"


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=2000))
def test_any_text_gets_a_verdict(text: str) -> None:
    report = garble.inspect(text)
    assert report.verdict in ("flagged", "clean", "not available")
    assert bool(report.reasons) == (report.verdict == "flagged")
    assert garble.inspect(text) == report


def test_repeats_of_a_sample_are_the_chance_of_a_pair() -> None:
    assert garble.pair_repeats(Counter("aabb")) == pytest.approx(4 / 12)
    assert garble.pair_repeats(Counter("a")) is None
