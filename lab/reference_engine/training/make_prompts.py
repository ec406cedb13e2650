"""Write the load prompts by rule: python make_prompts.py FOLDER.

The texts carry no outside material. They are made from word lists with a fixed seed, so the same folder comes
out on every machine; a test compares the committed files with what this program writes.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml

WORDS: dict[str, list[str]] = yaml.safe_load(
    Path(__file__).with_name("words.yml").read_text(encoding="utf-8")
)


def pick(rng: random.Random, kind: str) -> str:
    """One word or phrase of a list."""
    return rng.choice(WORDS[kind])


def prose(rng: random.Random) -> str:
    """One paragraph of three to six plain sentences."""
    sentences = []
    for _ in range(rng.randint(3, 6)):
        who, what, deed = pick(rng, "people"), pick(rng, "things"), pick(rng, "deeds")
        form = rng.randrange(4)
        if form == 0:
            text = f"{pick(rng, 'times')}, {who} {deed} {what} {pick(rng, 'places')}"
        elif form == 1:
            text = f"{who} {deed} {what} {pick(rng, 'times')} {pick(rng, 'reasons')}"
        elif form == 2:
            times = rng.randint(2, 40)
            text = f"{pick(rng, 'places')}, {what} was {deed} {times} times {pick(rng, 'reasons')}"
        else:
            then = f"then {pick(rng, 'deeds')} {pick(rng, 'things')}"
            text = f"{who} {deed} {what} and {then} {pick(rng, 'places')}"
        sentences.append(text[0].upper() + text[1:] + ".")
        if rng.random() < 0.4:
            sentences.append(pick(rng, "results") + ".")
    return " ".join(sentences) + "\n\n"


def code(rng: random.Random) -> str:
    """One small Python function or class."""
    verb, noun, field = pick(rng, "verbs"), pick(rng, "nouns"), pick(rng, "fields")
    number = rng.randint(2, 64)
    form = rng.randrange(4)
    if form == 0:
        return (
            f"def {verb}_{noun}s({noun}s, {field}={number}):\n"
            f'    """Return the {noun}s whose {field} is at least {number}."""\n'
            f"    result = []\n    for {noun} in {noun}s:\n"
            f"        if {noun}.{field} >= {field}:\n            result.append({noun})\n"
            "    return result\n\n\n"
        )
    if form == 1:
        other = rng.choice([name for name in WORDS["fields"] if name != field])
        return (
            f"class {noun.title()}:\n"
            f'    """A {noun} with a {field} and a {other}."""\n\n'
            f"    def __init__(self, {field}, {other}={number}):\n"
            f"        self.{field} = {field}\n        self.{other} = {other}\n\n"
            f"    def {verb}(self):\n        return self.{field} * {rng.randint(2, 9)} + self.{other}\n\n\n"
        )
    if form == 2:
        return (
            f"def {verb}_{field}({noun}s):\n"
            f"    total = 0\n    for index, {noun} in enumerate({noun}s):\n"
            f"        total += {noun}.{field} * index\n    return total % {number}\n\n\n"
        )
    return (
        f"def test_{verb}_{noun}():\n"
        f"    {noun} = {noun.title()}({field}={number})\n"
        f"    assert {noun}.{verb}() == {number * rng.randint(2, 9)}\n"
        f'    assert {noun}.{field} > 0, "{field} must be positive"\n\n\n'
    )


def arithmetic(rng: random.Random) -> str:
    """One worked sum in words and figures."""
    a, b = rng.randint(2, 99), rng.randint(2, 99)
    noun = pick(rng, "nouns")
    form = rng.randrange(4)
    if form == 0:
        return f"{a} + {b} = {a + b}. {b} + {a} = {a + b}. The order of a sum does not matter.\n"
    if form == 1:
        rows = f"There are {a} {noun}s in each of {b} rows"
        return f"{rows}, so there are {a} * {b} = {a * b} {noun}s in all.\n"
    if form == 2:
        low, high = sorted((a, b))
        return f"From {high} {noun}s take {low} away: {high} - {low} = {high - low} {noun}s are left.\n"
    return f"If {a} {noun}s cost {a * b} coins, one {noun} costs {a * b} / {a} = {b} coins.\n"


def paragraphs(make: Callable[[random.Random], str], seed: int, size: int) -> Iterator[str]:
    """Distinct paragraphs until ``size`` characters are there."""
    rng = random.Random(seed)  # noqa: S311  (texts, not secrets)
    seen: set[str] = set()
    written = 0
    while written < size:
        text = make(rng)
        if text not in seen:
            seen.add(text)
            written += len(text)
            yield text


KINDS = {
    "prose.txt": (prose, 11, 60_000),
    "code.txt": (code, 12, 60_000),
    "arithmetic.txt": (arithmetic, 13, 40_000),
}


def write(folder: Path) -> None:
    """Write every kind into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (make, seed, size) in KINDS.items():
        text = "".join(paragraphs(make, seed, size)).rstrip("\n") + "\n"
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
