"""Prompts that no two requests of a load share, built from base texts or from whole questions.

A prefix cache must not answer for the engine, so each prompt *begins* with letters of its own. Of base texts
it then holds a window that starts at a line of its own; of questions a whole one, or several where a length
is asked for. In long windows of texts, one in four hides a fact and ends in a question about it (retrieval).
The same seed gives the same prompts: service lives that are compared are asked the same things.
"""

from __future__ import annotations

import hashlib
from typing import Optional, Sequence

# Both the length that is asked for and the usual one are approximate: tokenizers differ.
CHARACTERS_PER_TOKEN = 4.0
USUAL_CONTEXT = 320
RETRIEVAL_CONTEXT = 1024
_HEAD_LETTERS = 12
_RETRIEVAL_IN = 4
_PLACES = (
    "west gate",
    "pump house",
    "reading room",
    "loading dock",
    "upper floor",
    "lower hall",
    "glass roof",
)


class Prompts:
    """Prompts from base texts, or from whole `questions`. Raises ValueError when there is nothing to send."""

    def __init__(self, texts: Sequence[str], seed: str, questions: bool = False) -> None:
        self._seed = seed
        self._questions = questions
        self._parts = (
            list(texts) if questions else [line for one in texts for line in (*one.splitlines(), "")]
        )
        self._starts = [at for at, part in enumerate(self._parts) if part.strip()]
        self._glue = "\n\n" if questions else "\n"
        self.characters_per_token = CHARACTERS_PER_TOKEN
        """How long a token is taken to be where a context is asked for; see `calibrate`."""
        if not self._starts:
            raise ValueError("prompts: the base texts are empty")

    def calibrate(self, characters: int, tokens: int) -> None:
        """Learn from prompts that an engine has counted how long its tokens are.

        In steps of a quarter character, so that two lives of one engine ask for the same prompts even when a
        warm-up request of one of them was lost.
        """
        if characters > 0 and tokens > 0:
            self.characters_per_token = min(12.0, max(1.0, round(4 * characters / tokens) / 4))

    def build(self, label: str, index: int, context: Optional[int] = None) -> str:
        """The prompt of request `index` of the point `label`, about `context` tokens long."""
        number = int.from_bytes(
            hashlib.sha256(("%s\0%s\0%d" % (self._seed, label, index)).encode()).digest(), "big"
        )
        head = []
        for _ in range(_HEAD_LETTERS):
            number, letter = divmod(number, 26)
            head.append(chr(ord("a") + letter))
        start = self._starts[number % len(self._starts)]
        if self._questions and context is None:
            return "%s\n%s" % ("".join(head), self._parts[start])
        per_token = self.characters_per_token if context else CHARACTERS_PER_TOKEN
        wanted = int((context or USUAL_CONTEXT) * per_token) - _HEAD_LETTERS - 1
        retrieval = not self._questions and (context or 0) >= RETRIEVAL_CONTEXT
        if retrieval and number // len(self._starts) % _RETRIEVAL_IN == 0:
            return "%s\n%s" % ("".join(head), self._retrieval(start, wanted, number))
        return "%s\n%s" % ("".join(head), self._window(start, wanted))

    def _retrieval(self, position: int, wanted: int, number: int) -> str:
        """A window with a fact somewhere in it, and the question for it at its end."""
        place = _PLACES[number % len(_PLACES)]
        fact = "The access code of the %s is %05d." % (place, number % 99991)
        question = "What is the access code of the %s? The access code of the %s is" % (place, place)
        window = self._window(position, wanted - len(fact) - len(question) - 3)
        cut = window.find("\n", len(window) * (number % 7 + 1) // 9)
        cut = len(window) if cut < 0 else cut
        return "%s\n%s%s\n%s" % (window[:cut], fact, window[cut:] or "\n", question)

    def _window(self, position: int, wanted: int) -> str:
        """Parts from `position` on, going round, up to `wanted` characters; the last one may be cut."""
        taken: list[str] = []
        size = 0
        while size < wanted:
            part = self._parts[position][: wanted - size]
            taken.append(part)
            size += len(part) + len(self._glue)
            position = (position + 1) % len(self._parts)
        return self._glue.join(taken)


class PromptsHash:
    """A hash over the prompts of one run in the order of their indexes, whenever each was sent."""

    def __init__(self) -> None:
        self._digests: dict[int, bytes] = {}

    def add(self, index: int, prompt: str) -> None:
        """Note a prompt."""
        self._digests[index] = hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).digest()

    def hexdigest(self) -> Optional[str]:
        """64 hex digits; None without a prompt."""
        if not self._digests:
            return None
        return hashlib.sha256(b"".join(self._digests[at] for at in sorted(self._digests))).hexdigest()
