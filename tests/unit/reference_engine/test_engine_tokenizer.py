"""Text to ids and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from treeline_reference_engine.tokenizer import EOS, Tokenizer

TEXT = "def add(a, b):\n    return a + b\n\n\tx = 12 # grüße\r\n"
TOKENIZER = Tokenizer.train([TEXT], limit=20)


@given(st.text())
def test_round_trip(text: str) -> None:
    ids = TOKENIZER.encode(text)
    assert TOKENIZER.decode(ids) == text
    assert all(0 < number < TOKENIZER.size for number in ids)


@pytest.mark.parametrize("text", [TEXT, "", "   ", "\n\n \n", "naïve — 漢字 🙂", "\udc80"])
def test_round_trip_of_awkward_texts(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


def test_known_pieces_are_one_token_and_unknown_ones_more() -> None:
    assert len(TOKENIZER.encode("return")) == 1
    assert len(TOKENIZER.encode("unheardof")) == len("unheardof")


def test_end_marker_has_no_text() -> None:
    assert TOKENIZER.decode([EOS]) == ""


def test_vocabulary_is_bounded() -> None:
    with pytest.raises(ValueError, match="too many"):
        Tokenizer([str(number) for number in range(70_000)])
