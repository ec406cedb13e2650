"""Tell garbled model output from language, by the text alone, without a model or a dictionary.

Each signal asks for something that text in any human or programming language has and that the output of a
broken kernel loses. The limits were set on some 60,000 windows of 200 to 3000 characters of code, manuals,
licences and logs: under one in a thousand of them is flagged.

- unreadable: more than 2 % (and at least 3) characters are replacement, control, private-use or unassigned
  ones, as broken UTF-8 pieces give.
- one_token: more than 60 % of the text repeats one unit of at most 8 characters, or more than 75 % of it is
  white space: the choice is stuck on a token. A sound model that repeats a *sentence* for ever is not
  flagged.
- no_repeats: the chance that two places hold the same word is below 0.25 %, and the same token (word or sign)
  below 0.4 %. Language repeats itself (Zipf); draws from a large vocabulary do not. Needs 32 words.
- mixed_scripts: four or more writing systems hold at least 3 % of the letters each. Vocabularies are
  multilingual, texts are hardly ever so much so.
- crossed_brackets: of at least 8 closing brackets, more than 40 % meet an open one of another kind. Code and
  prose nest.
- incompressible: zlib leaves more than 85 % of at least 400 bytes, or 78 % of at least 1000. Even dense prose
  has redundancy.

It is one gate of several: it does not see fluent nonsense, which canaries do. Texts too short to look for
repeats in are `not available` unless another signal flags them; `garble_pool` judges the outputs of a point
together.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Optional

MIN_CHARACTERS = 48

UNREADABLE_SHARE = 0.02
UNREADABLE_COUNT = 3
UNIT_LENGTH = 8
UNIT_SHARE = 0.6
BLANK_SHARE = 0.75
REPEAT_MIN_WORDS = 32
WORD_REPEATS = 0.0025
TOKEN_REPEATS = 0.004
SCRIPT_SHARE = 0.03
SCRIPT_COUNT = 4
SCRIPT_MIN_LETTERS = 60
CROSSED_SHARE = 0.4
CROSSED_MIN = 8
COMPRESS_LIMITS = ((1000, 0.78), (400, 0.85))

# A word of an alphabet; one character of a script that writes without spaces; or any other single sign.
_TOKEN = re.compile(r"\w+|[^\w\s]", re.UNICODE)
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"
)
_OPEN = {")": "(", "]": "[", "}": "{"}
_KEPT_CONTROLS = "\t\n\r\f"
# Parts of one writing tradition count as one: Japanese mixes three, Korean two.
_SCRIPT_GROUPS = {
    "CJK": "east asian",
    "HIRAGANA": "east asian",
    "KATAKANA": "east asian",
    "HANGUL": "east asian",
    "IDEOGRAPHIC": "east asian",
    "FULLWIDTH": "east asian",
    "HALFWIDTH": "east asian",
}
# Letter-like signs of mathematics and units are no writing system.
_NO_SCRIPT = frozenset(("MATHEMATICAL", "MICRO", "FEMININE", "MASCULINE", "DOUBLE", "SCRIPT", "KELVIN"))


@dataclass(frozen=True)
class Report:
    """The verdict on one text: `flagged` (with reasons), `clean`, or `not available` when it is too short."""

    verdict: str
    reasons: tuple[str, ...] = ()
    scores: dict[str, float] = field(default_factory=dict)


def inspect(text: str) -> Report:
    """Judge one output. Pure; time is linear in the length of the text."""
    tokens = tokenize(text)
    signals = {
        "unreadable": _unreadable(text),
        "one_token": _one_token(text),
        "no_repeats": _no_repeats(tokens),
        "mixed_scripts": _mixed_scripts(text),
        "crossed_brackets": _crossed_brackets(text),
        "incompressible": _incompressible(text),
    }
    scores = {name: round(score, 5) for name, (score, _) in signals.items() if score is not None}
    reasons = tuple(name for name, (_, bad) in signals.items() if bad)
    if reasons:
        return Report("flagged", reasons, scores)
    return Report("clean" if "no_repeats" in scores else "not available", (), scores)


def tokenize(text: str) -> list[str]:
    """Words, single characters of scripts without spaces, and single signs; white space is left out."""
    tokens: list[str] = []
    for token in _TOKEN.findall(text):
        if _UNSPACED.search(token):
            tokens.extend(part for part in _split_unspaced(token) if part)
        else:
            tokens.append(token.lower())
    return tokens


def _split_unspaced(token: str) -> list[str]:
    return re.split("(%s)" % _UNSPACED.pattern, token)


def is_word(token: str) -> bool:
    """Whether a token is a word or a character of a script without spaces, and no sign."""
    return token[0].isalnum() or token[0] == "_"


def _is_unreadable(character: str) -> bool:
    return character == "\ufffd" or (
        character not in _KEPT_CONTROLS and unicodedata.category(character) in ("Cc", "Co", "Cn", "Cs")
    )


def count_unreadable(text: str) -> int:
    """How many characters are replacement, control, private-use or unassigned ones."""
    return sum(map(_is_unreadable, text))


def _unreadable(text: str) -> tuple[Optional[float], bool]:
    if not text:
        return None, False
    count = count_unreadable(text)
    return count / len(text), count >= UNREADABLE_COUNT and count / len(text) > UNREADABLE_SHARE


def _one_token(text: str) -> tuple[Optional[float], bool]:
    if len(text) < MIN_CHARACTERS:
        return None, False
    blank = sum(map(str.isspace, text)) / len(text)
    if blank > BLANK_SHARE:
        return blank, True
    share = repeated_unit_share(text)
    return share, share > UNIT_SHARE


def repeated_unit_share(text: str) -> float:
    """The largest share of `text` that repeats one unit of 1 to 8 characters.

    A place counts when its character equals the one a unit earlier. Runs of white space count as one space,
    and rulers such as ---- are cut to three signs where there is other text: tables and headings hold them.
    """
    body = re.sub(r"\s+", " ", text)
    without_rulers = re.sub(r"([^\w\s])\1{3,}", r"\1\1\1", body)
    if len(without_rulers) >= MIN_CHARACTERS / 2:
        body = without_rulers
    best = 0
    for period in range(1, UNIT_LENGTH + 1):
        best = max(best, sum(map(str.__eq__, body, body[period:])))
    return best / len(body) if body else 0.0


def pair_repeats(counts: Counter[str]) -> Optional[float]:
    """The chance that two places of a sample hold the same item (Simpson's index); None below two."""
    total = sum(counts.values())
    if total < 2:
        return None
    return sum(count * (count - 1) for count in counts.values()) / (total * (total - 1))


def _no_repeats(tokens: list[str]) -> tuple[Optional[float], bool]:
    words = [token for token in tokens if is_word(token)]
    if len(words) < REPEAT_MIN_WORDS:
        return None, False
    of_words, of_tokens = pair_repeats(Counter(words)) or 0.0, pair_repeats(Counter(tokens)) or 0.0
    return of_tokens, of_words < WORD_REPEATS and of_tokens < TOKEN_REPEATS


def script_of(character: str) -> Optional[str]:
    """The writing system that a letter belongs to; None for what is no letter of any."""
    if not character.isalpha():
        return None
    first = unicodedata.name(character, "UNKNOWN").split(" ")[0].split("-")[0]
    return None if first in _NO_SCRIPT else _SCRIPT_GROUPS.get(first, first)


def _mixed_scripts(text: str) -> tuple[Optional[float], bool]:
    scripts: Counter[str] = Counter()
    for character, count in Counter(text).items():
        script = script_of(character)
        if script is not None:
            scripts[script] += count
    letters = sum(scripts.values())
    if letters < SCRIPT_MIN_LETTERS:
        return None, False
    held = sum(1 for count in scripts.values() if count >= SCRIPT_SHARE * letters)
    return float(held), held >= SCRIPT_COUNT


def count_brackets(text: str) -> tuple[int, int]:
    """How many closing brackets meet an open one, and how many of these one of another kind."""
    waiting: list[str] = []
    closed = crossed = 0
    for character in text:
        if character in "([{":
            waiting.append(character)
        elif character in _OPEN and waiting:
            closed += 1
            crossed += waiting.pop() != _OPEN[character]
    return closed, crossed


def _crossed_brackets(text: str) -> tuple[Optional[float], bool]:
    closed, crossed = count_brackets(text)
    if closed < CROSSED_MIN:
        return None, False
    return crossed / closed, crossed / closed > CROSSED_SHARE


def compressed_share(text: str, least: int) -> Optional[float]:
    """Compressed / original size; None for a text of fewer than `least` bytes."""
    data = text.encode("utf-8", "replace")
    return len(zlib.compress(data, 9)) / len(data) if len(data) >= least else None


def _incompressible(text: str) -> tuple[Optional[float], bool]:
    for least, limit in COMPRESS_LIMITS:
        ratio = compressed_share(text, least)
        if ratio is not None:
            return ratio, ratio > limit
    return None, False
