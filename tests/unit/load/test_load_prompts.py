"""No two requests of a load share how their prompts begin."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from treeline_target import load_prompts

TEXTS = [
    "\n".join(f"Section {n}\n\nSome text about subject {n} and its parts." for n in range(60)),
    "short\ntext",
]


def test_every_request_of_every_point_begins_differently() -> None:
    prompts = [
        load_prompts.Prompts(TEXTS, "seed").build(label, index)
        for label in ("point/c8", "point/c1")
        for index in range(500)
    ]
    assert len(set(prompts)) == len(prompts)
    starts = [prompt[:6] for prompt in prompts]
    assert len(set(starts)) == len(starts)
    ordered = sorted(prompts)
    shared = [
        next(at for at, letter in enumerate(one) if other[at] != letter)
        for one, other in zip(ordered, ordered[1:])  # noqa: B905, RUF007
    ]
    # Of 1280 characters; a cache that matches characters would not reach one percent.
    assert sum(shared) / sum(map(len, prompts)) < 0.005


def test_the_same_seed_asks_the_same_and_another_one_does_not() -> None:
    assert load_prompts.Prompts(TEXTS, "a").build("p", 3) == load_prompts.Prompts(TEXTS, "a").build("p", 3)
    assert load_prompts.Prompts(TEXTS, "a").build("p", 3) != load_prompts.Prompts(TEXTS, "b").build("p", 3)


@given(context=st.integers(8, 5000), index=st.integers(0, 10**6))
def test_a_context_has_about_the_length_that_was_asked_for(context: int, index: int) -> None:
    prompt = load_prompts.Prompts(TEXTS, "seed").build("point", index, context)
    assert len(prompt) == pytest.approx(context * load_prompts.CHARACTERS_PER_TOKEN, abs=4)


def test_the_text_after_the_own_letters_is_the_base_text() -> None:
    own, _, window = load_prompts.Prompts(TEXTS, "seed").build("point", 7, 50).partition("\n")
    assert own.isalpha()
    assert window.split("\n")[0] in {line for text in TEXTS for line in text.splitlines()}


def test_texts_without_a_word_are_refused() -> None:
    with pytest.raises(ValueError, match="base texts are empty"):
        load_prompts.Prompts(["", " \n "], "seed")
