"""Outputs of a point, judged together: short ones too, in any language; noise and loops are told."""

from __future__ import annotations

import random
import re
import sysconfig
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from treeline_target import garble, garble_pool

ROOT = Path(__file__).resolve().parents[3]
STDLIB = Path(sysconfig.get_paths()["stdlib"])
CODE = "\n".join(
    (STDLIB / f"{name}.py").read_text("utf-8") for name in ("argparse", "ast", "csv", "textwrap")
)
PROMPTS = [
    path.read_text("utf-8") for path in sorted((ROOT / "analysis/treeline/data/prompts").glob("*.txt"))
]
CHINESE = (ROOT / "tests/data/texts/chinese.txt").read_text("utf-8")
RUSSIAN = (ROOT / "tests/data/texts/russian.txt").read_text("utf-8")
TEXTS = [CODE, *PROMPTS, CHINESE, RUSSIAN]
VOCABULARY = sorted(set(re.findall(r" ?[A-Za-z_]+|[^\w\s]", CODE + PROMPTS[0])))
SCRIPTS = ["кни", "га", "本", "书", "שלום", "عرب", "ไทย", "हिं", "the", "ing", "ção", "λόγος", "한국", "ქარ"]  # noqa: RUF001
SEEDS = st.integers(0, 10**9)


def pool(seed: int, text: str, size: int = 150, count: int = 12) -> list[str]:
    dice = random.Random(seed)
    begins = [dice.randrange(len(text) - size) for _ in range(count)]
    return [text[begin : begin + size] for begin in begins]


def noise(seed: int, words: list[str], tokens: int = 40, count: int = 12) -> list[str]:
    dice = random.Random(seed)
    return ["".join(dice.choice(words) for _ in range(tokens)) for _ in range(count)]


@pytest.mark.parametrize(
    "text", TEXTS, ids=["code", "arithmetic", "functions", "prose", "chinese", "russian"]
)
@settings(max_examples=40, deadline=None)
@given(seed=SEEDS)
def test_ordinary_texts_are_clean_together_where_each_is_too_short(text: str, seed: int) -> None:
    texts = pool(seed, text)
    report = garble_pool.inspect(texts, 12 * 40)
    assert report.verdict == "clean", report
    seen = garble_pool.summarise(texts, map(garble.inspect, texts), 12 * 40)
    assert (seen["flagged"], seen["of"]) == (0, 12)


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS)
def test_texts_of_many_languages_side_by_side_are_clean(seed: int) -> None:
    texts = [one for text in TEXTS for one in pool(seed, text, count=3)]
    greek = ["Η γλώσσα είναι το σπίτι μας και ο δρόμος μας κάθε μέρα. " * 3]  # noqa: RUF001
    assert garble_pool.inspect(texts + greek + ["שלום עולם, זה משפט רגיל. " * 6]).verdict == "clean"


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS)
def test_a_salad_is_flagged_where_each_is_too_short(seed: int) -> None:
    texts = noise(seed, VOCABULARY)
    assert "no_repeats" in garble_pool.inspect(texts).reasons


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS)
def test_a_salad_at_the_end_only_is_flagged(seed: int) -> None:
    begins = pool(seed, PROMPTS[2], size=160, count=16)
    ends = noise(seed, [" " + word.strip() for word in VOCABULARY if word.strip().isalpha()], 24, 16)
    report = garble_pool.inspect([begin + end for begin, end in zip(begins, ends, strict=True)])
    assert "late_no_repeats" in report.reasons


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS)
def test_scripts_mixed_inside_outputs_are_flagged(seed: int) -> None:
    assert "mixed_scripts" in garble_pool.inspect(noise(seed, SCRIPTS)).reasons


def test_unreadable_characters_count_unless_an_output_was_cut_there() -> None:
    texts = pool(1, CHINESE)
    assert garble_pool.inspect([text + "\ufffd\ufffd" for text in texts]).verdict == "clean"
    broken = [text[:40] + "\ufffd\ufffd" + text[40:] for text in texts]
    assert "unreadable" in garble_pool.inspect(broken).reasons


def test_brackets_and_noise_and_length() -> None:
    dice = random.Random(3)
    brackets = [" ".join(dice.choice("([{}])") + dice.choice("xyz") for _ in range(20)) for _ in range(8)]
    assert "crossed_brackets" in garble_pool.inspect(brackets).reasons
    signs = ["".join(chr(dice.randrange(33, 127)) for _ in range(200)) for _ in range(8)]
    assert "incompressible" in garble_pool.inspect(signs).reasons
    texts = pool(1, CODE)
    assert garble_pool.inspect(texts, 12 * 40).verdict == "clean"
    assert garble_pool.inspect(texts, 12 * 400).reasons == ("length",)
    assert garble_pool.inspect([""] * 8, 8 * 40).reasons == ("length",)
    assert garble_pool.inspect(texts, 12 * 4).reasons == ("length",)


def test_too_few_outputs_or_words_are_not_available() -> None:
    assert garble_pool.inspect(noise(1, VOCABULARY, count=3)).verdict == "not available"
    assert garble_pool.inspect(["Paris", "42", "yes", "no"]).verdict == "not available"
    seen = garble_pool.summarise(["Paris"] * 8, map(garble.inspect, ["Paris"] * 8))
    assert (seen["of"], seen["not_available"], seen["pool"]["verdict"]) == (0, 8, "not available")


@settings(max_examples=60, deadline=None)
@given(
    seed=SEEDS,
    unit=st.lists(
        st.sampled_from(["tree", "of", "drafts", ",", "and", "then", "(", "7"]), min_size=1, max_size=10
    ),
)
def test_a_loop_is_seen_after_a_good_beginning(seed: int, unit: list[str]) -> None:
    begin = pool(seed, PROMPTS[2], size=100, count=1)[0]
    assert garble_pool.count_loops([begin + " " + " ".join(unit * 60)]) == {"count": 1, "of": 1}


@pytest.mark.parametrize(
    "text", TEXTS, ids=["code", "arithmetic", "functions", "prose", "chinese", "russian"]
)
def test_texts_hardly_ever_loop(text: str) -> None:
    seen = garble_pool.count_loops(pool(5, text, size=min(400, len(text) // 2), count=100))
    assert seen["of"] == 100
    assert seen["count"] <= 4


def test_a_text_too_short_to_loop_is_not_counted() -> None:
    assert garble_pool.count_loops(["no no no no", "Paris", ""]) == {"count": 0, "of": 0}


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(max_size=60), max_size=10), st.none() | st.integers(0, 1000))
def test_any_outputs_get_a_verdict(texts: list[str], tokens: int | None) -> None:
    report = garble_pool.inspect(texts, tokens)
    assert report.verdict in ("flagged", "clean", "not available")
    assert bool(report.reasons) == (report.verdict == "flagged")
    assert all(0.0 <= (garble_pool.loop_share(text) or 0.0) <= 1.0 for text in texts)
