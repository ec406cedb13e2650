"""Prompts that no two requests of a load share, built from base texts.

A prefix cache must not answer for the engine, so each prompt *begins* with letters of its own, and its text
is a window of a base text that starts at a line of its own. The same seed gives the same prompts: service
lives that are compared are asked the same things.
"""

from __future__ import annotations

import hashlib
from typing import Optional, Sequence

# Both the length that is asked for and the usual one are approximate: tokenizers differ.
CHARACTERS_PER_TOKEN = 4
USUAL_CONTEXT = 320
_HEAD_LETTERS = 12


class Prompts:
    """Prompts from base texts. Raises ValueError when the texts hold nothing but white space."""

    def __init__(self, texts: Sequence[str], seed: str) -> None:
        self._seed = seed
        self._lines = [line for text in texts for line in (*text.splitlines(), "")]
        self._starts = [at for at, line in enumerate(self._lines) if line.strip()]
        if not self._starts:
            raise ValueError("prompts: the base texts are empty")

    def build(self, label: str, index: int, context: Optional[int] = None) -> str:
        """The prompt of request `index` of the point `label`, about `context` tokens long."""
        number = int.from_bytes(
            hashlib.sha256(("%s\0%s\0%d" % (self._seed, label, index)).encode()).digest(), "big"
        )
        head = []
        for _ in range(_HEAD_LETTERS):
            number, letter = divmod(number, 26)
            head.append(chr(ord("a") + letter))
        wanted = (context or USUAL_CONTEXT) * CHARACTERS_PER_TOKEN - _HEAD_LETTERS - 1
        return "%s\n%s" % ("".join(head), self._window(self._starts[number % len(self._starts)], wanted))

    def _window(self, position: int, wanted: int) -> str:
        """Whole lines from `position` on, going round, up to `wanted` characters; the last one may be cut."""
        taken: list[str] = []
        size = 0
        while size < wanted:
            line = self._lines[position][: wanted - size]
            taken.append(line)
            size += len(line) + 1
            position = (position + 1) % len(self._lines)
        return "\n".join(taken)
