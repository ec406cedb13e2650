"""Quoting for units and environment files, checked against independent readers of both syntaxes."""

from __future__ import annotations

import shlex
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from treeline import systemd_quote as quote

TEXT = st.text(
    alphabet=st.one_of(
        st.sampled_from(list(string.printable.replace("\r", "").replace("\x0b", "").replace("\x0c", ""))),
        st.characters(min_codepoint=0xA1, max_codepoint=0x2FFF, exclude_categories=["Cs", "Cc"]),
    ),
    max_size=40,
)


def read_unit_word(word: str, variables: bool) -> str:
    """What systemd makes of one quoted word: unescape, then specifiers, then (Exec lines) variables."""
    inner = word
    if word.startswith('"'):
        inner, position = "", 1
        while position < len(word) - 1:
            if word[position] == "\\":
                inner += {"n": "\n", "t": "\t"}.get(word[position + 1], word[position + 1])
                position += 2
            else:
                assert word[position] != '"', "a quote ends the word early"
                inner += word[position]
                position += 1
    plain = inner.replace("%%", "\0")
    assert "%" not in plain, "an open specifier"
    inner = plain.replace("\0", "%")
    if variables:
        plain = inner.replace("$$", "\0")
        assert "$" not in plain, "an open variable"
        inner = plain.replace("\0", "$")
    return inner


@given(TEXT)
def test_an_exec_word_reaches_the_process_unchanged(text: str) -> None:
    word = quote.quote_word(text, "exec")
    assert "\n" not in word
    assert read_unit_word(word, variables=True) == text


@given(TEXT)
def test_an_environment_setting_reaches_the_process_unchanged(text: str) -> None:
    (setting,) = quote.environment_settings({"NAME": text})
    assert "\n" not in setting
    assert read_unit_word(setting, variables=False) == f"NAME={text}"


@given(TEXT.filter(lambda text: "\n" not in text))
def test_an_environment_file_reads_like_a_shell_assignment(text: str) -> None:
    line = quote.environment_file({"NAME": text})
    assert line.endswith('"\n')
    # A POSIX shell keeps a backslash before any other character, as systemd does; shlex reads it the same way
    # except that it does not know \$ and \`.
    (word,) = shlex.split(line.replace("\\$", "$").replace("\\`", "`"))
    assert word == f"NAME={text}"


@pytest.mark.parametrize("word", ["--port", "/opt/x/bin/python", "a=b", "0.85", "sglang.launch_server"])
def test_plain_words_stay_readable(word: str) -> None:
    assert quote.quote_word(word) == word


@pytest.mark.parametrize(("word", "expected"), [(";", '";"'), ("", '""'), ("@x", '"@x"'), ("+x", '"+x"')])
def test_words_that_mean_something_to_systemd_are_quoted(word: str, expected: str) -> None:
    assert quote.quote_word(word) == expected


def test_an_environment_file_is_sorted_and_leaves_out_null() -> None:
    assert quote.environment_file({"B": "2", "A": 1, "C": None}) == 'A="1"\nB="2"\n'


@pytest.mark.parametrize("value", ["a\0b", "a\rb", "\x1b[31m", "\x7f"])
def test_control_characters_are_refused(value: str) -> None:
    with pytest.raises(ValueError, match="control character"):
        quote.quote_word(value)


@pytest.mark.parametrize("value", [True, None, ["a"], {"a": 1}])
def test_values_without_one_spelling_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="is not text or a number"):
        quote.quote_word(value)


@pytest.mark.parametrize("value", ["hidden\x1b", ["hidden"]])
def test_a_refused_variable_is_named_without_its_value(value: object) -> None:
    for write in (quote.environment_file, quote.environment_settings):
        with pytest.raises(ValueError, match="the value of TOKEN") as refused:
            write({"TOKEN": value})
        assert "hidden" not in str(refused.value)


@pytest.mark.parametrize("name", ["1A", "A-B", "A B", "", "A=B"])
def test_a_name_that_is_no_variable_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not a variable name"):
        quote.environment_settings({name: "x"})


@pytest.mark.parametrize("argv", [[], ["python"], ["/opt/my python"], ["@/bin/x"]])
def test_a_command_line_starts_with_a_plain_absolute_path(argv: list[str]) -> None:
    with pytest.raises(ValueError, match="systemd quoting"):
        quote.command_line(argv)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("0.0.0.0", False),  # noqa: S104 - a value under test
        ("::", False),
        ("10.0.0.1", False),
        ("myhost", False),
    ],
)
def test_loopback(host: str, expected: bool) -> None:
    assert quote.is_loopback(host) is expected
