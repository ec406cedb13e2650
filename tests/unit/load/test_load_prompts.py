"""No two requests of a load share how their prompts begin."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from treeline_target import load_material, load_prompts

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


def test_a_long_context_hides_a_fact_now_and_then_and_asks_for_it() -> None:
    prompts = load_prompts.Prompts(TEXTS, "seed")
    built = [prompts.build("point", index, 2000) for index in range(60)]
    asked = [prompt for prompt in built if "What is the access code of the" in prompt]
    assert 5 <= len(asked) <= 30
    for prompt in asked:
        place = re.search(r"What is the access code of the ([a-z ]+)\?", prompt.splitlines()[-1])
        assert place is not None
        assert len(re.findall(rf"The access code of the {place.group(1)} is \d{{5}}\.", prompt)) == 1
        assert prompt.endswith(f"The access code of the {place.group(1)} is")
        assert len(prompt) == pytest.approx(2000 * load_prompts.CHARACTERS_PER_TOKEN, abs=4)
    assert not any("access code" in prompts.build("point", index, 500) for index in range(60))


def test_the_length_of_a_token_is_learned_and_then_kept_in_steps() -> None:
    prompts = load_prompts.Prompts(TEXTS, "seed")
    usual = prompts.build("point", 1)
    prompts.calibrate(1000, 333)
    assert prompts.characters_per_token == 3.0
    assert len(prompts.build("point", 1, 500)) == pytest.approx(1500, abs=4)
    assert prompts.build("point", 1) == usual
    prompts.calibrate(0, 0)
    assert prompts.characters_per_token == 3.0
    prompts.calibrate(10_000, 1)
    assert prompts.characters_per_token == 12.0


def test_questions_are_sent_whole_and_joined_where_a_length_is_asked_for() -> None:
    questions = [f"Question {at}:\nhow many are {at} and {at}?" for at in range(5)]
    prompts = load_prompts.Prompts(questions, "seed", questions=True)
    own, _, question = prompts.build("point", 3).partition("\n")
    assert len(own) == 12
    assert question in questions
    longer = prompts.build("point", 3, 100)
    assert len(longer) == pytest.approx(400, abs=4)
    assert longer.count("Question") > 5


def test_the_hash_of_a_run_does_not_depend_on_the_order_of_sending() -> None:
    one, other, third = (load_prompts.PromptsHash() for _ in range(3))
    for index in (0, 1, 2):
        one.add(index, f"prompt {index}")
        third.add(index, "prompt")
    for index in (2, 0, 1):
        other.add(index, f"prompt {index}")
    assert one.hexdigest() == other.hexdigest() != third.hexdigest()
    assert load_prompts.PromptsHash().hexdigest() is None


@given(
    st.lists(st.text(max_size=50), max_size=8),
    st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=9)), max_size=4),
    st.booleans(),
)
def test_material_comes_out_as_it_went_in(
    prompts: list[str], canaries: list[dict[str, str]], questions: bool
) -> None:
    packed = load_material.pack(prompts, canaries, questions)
    assert packed.isascii()
    assert load_material.unpack(packed) == {
        "prompts": prompts,
        "canaries": canaries,
        "questions": questions,
    }


def test_material_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = load_material.pack(["text"] * 50, [])
    for text in ("?", "aGFsbG8=", whole[: len(whole) // 2 // 4 * 4], whole + "!"):
        with pytest.raises(load_material.MaterialError, match="material: "):
            load_material.unpack(text)
    monkeypatch.setattr(load_material, "MAX_UNPACKED", 100)
    with pytest.raises(load_material.MaterialError, match="or is larger"):
        load_material.unpack(whole)
    with pytest.raises(load_material.MaterialError, match="Name fewer"):
        load_material.pack(["text" * 100], [])
