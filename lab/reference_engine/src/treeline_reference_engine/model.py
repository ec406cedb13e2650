"""The target model: an interpolated n-gram model over a stored token stream.

The model keeps the training tokens themselves. For each context length an index of 64-bit hashes, sorted,
finds every place where a context occurred; what followed there is the count table of that context. So any
order can be asked for, the file stays small (two bytes a token), and the drafter reads the same index.

Probability of x after a context: over the context lengths from long to short, each length that occurred
gets the share ``total / (total + kinds)`` of the mass that is left (Witten and Bell), split by its counts.
The greedy choice is the largest probability; ties go to the smaller id. It depends on the last
``max(ORDERS)`` tokens only.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import accumulate
from operator import mul
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .files import CONFIG_FILE, MODEL_FILE
from .tokenizer import EOS, Tokenizer

# Long contexts let the model go on with a text that it has read; short ones let it go on with any text.
ORDERS = (1, 2, 3, 4, 6, 9, 14, 24)
FORMAT = 1

_MASK = (1 << 64) - 1
_BASE = 0x9E3779B97F4A7C15 | 1
_OCCURRENCES = 128  # places looked at for one context; a frequent context is sampled at even distances
_LEFTOVER = 0.02  # mass below which shorter contexts cannot matter enough to look them up
_MEMO = 400_000


class Choice(NamedTuple):
    """A greedy choice, and a place in the training text where the context went on with it.

    ``place`` is the index behind that token, ``length`` how many tokens before ``place`` are known to equal
    the end of the context; (-1, 0) when no such place is at hand.
    """

    token: int
    place: int
    length: int


def token_hashes(size: int) -> npt.NDArray[np.uint64]:
    """One 64-bit number for each id (splitmix64), the same on every machine."""
    x = (np.arange(1, size + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)).astype(np.uint64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


class ContextIndex:
    """Finds where a context of one of ``ORDERS`` tokens occurred in ``tokens``."""

    def __init__(self, tokens: npt.NDArray[np.uint16], vocabulary: int, orders: Sequence[int]) -> None:
        self.tokens = tokens
        self.orders = tuple(orders)
        self._table = token_hashes(vocabulary).tolist()
        self._powers = [pow(_BASE, k, 1 << 64) for k in range(max(self.orders))]
        self._keys: dict[int, npt.NDArray[np.uint64]] = {}
        self._places: dict[int, npt.NDArray[np.int32]] = {}
        self._build(token_hashes(vocabulary)[tokens])

    def _build(self, hashed: npt.NDArray[np.uint64]) -> None:
        # running[i] = hash of the k tokens before place i + k; one more token to the left at each turn
        running: npt.NDArray[np.uint64] | None = None
        n = len(hashed)
        for k in range(1, max(self.orders) + 1):
            if n <= k:
                break
            shifted = hashed[: n - k] * np.uint64(self._powers[k - 1])
            running = shifted if running is None else shifted + running[1:]
            if k in self.orders:
                order = np.argsort(running, kind="stable")
                self._keys[k] = running[order]
                self._places[k] = (order + k).astype(np.int32)

    def hashes(self, context: Sequence[int]) -> dict[int, int]:
        """Hash of the last k tokens of ``context`` for each indexed k that fits."""
        tail = context[-len(self._powers) :]
        sums = list(accumulate(map(mul, map(self._table.__getitem__, reversed(tail)), self._powers)))
        return {k: sums[k - 1] & _MASK for k in self._keys if k <= len(sums)}

    def places(self, order: int, value: int, limit: int = _OCCURRENCES) -> npt.NDArray[np.int32] | None:
        """Indices of the tokens that follow the context, at most ``limit``; None if it never occurred."""
        keys = self._keys[order]
        wanted = np.uint64(value)
        low = int(keys.searchsorted(wanted))
        if low == len(keys) or keys[low] != wanted:
            return None
        if low + 1 == len(keys) or keys[low + 1] != wanted:  # the usual case for long contexts
            return self._places[order][low : low + 1]
        high = int(keys.searchsorted(wanted, side="right"))
        if high - low > limit:
            step = -(-(high - low) // limit)
            return self._places[order][low:high:step]
        return self._places[order][low:high]

    def shortest_unique(self, never: int) -> npt.NDArray[np.int32]:
        """For each place the smallest indexed order whose context before it occurs nowhere else.

        ``never`` where there is none. The last element stands for the end of the text.
        """
        out = np.full(len(self.tokens) + 1, never, dtype=np.int32)
        for order in sorted(self._keys, reverse=True):
            keys = self._keys[order]
            alone = np.ones(len(keys), dtype=bool)
            alone[1:] &= keys[1:] != keys[:-1]
            alone[:-1] &= keys[:-1] != keys[1:]
            out[self._places[order][alone]] = order
        out[-1] = never  # nothing follows
        return out


class NgramModel:
    """Target distribution, greedy choice and the files on disk."""

    def __init__(self, tokenizer: Tokenizer, tokens: npt.NDArray[np.uint16], config: dict[str, Any]) -> None:
        self.tokenizer = tokenizer
        self.config = config
        self.index = ContextIndex(tokens, tokenizer.size, ORDERS)
        self._choices: dict[tuple[int, ...], Choice] = {}
        self._short: dict[tuple[int, int], list[tuple[int, float]]] = {}

    def _followers(self, order: int, value: int) -> list[tuple[int, float]] | None:
        """(token, share of the remaining mass) after this context, or None if it never occurred."""
        known = self._short.get((order, value)) if order <= 3 else None
        if known is not None:
            return known
        places = self.index.places(order, value)
        if places is None:
            return None
        if len(places) == 1:
            return [(int(self.index.tokens[places[0]]), 0.5)]
        counts: dict[int, int] = {}
        for token in self.index.tokens[places].tolist():
            counts[token] = counts.get(token, 0) + 1
        total = len(places)
        scale = 1.0 / (total + len(counts))
        shares = [(token, count * scale) for token, count in counts.items()]
        if order <= 3:
            if len(self._short) > _MEMO:
                self._short.clear()
            self._short[order, value] = shares
        return shares

    def distribution(self, context: Sequence[int]) -> dict[int, float]:
        """Unnormalised probabilities of the next token."""
        return self._mix(context, stop_early=False)[0]

    def _mix(self, context: Sequence[int], stop_early: bool) -> tuple[dict[int, float], int, dict[int, int]]:
        """(unnormalised probabilities, longest context that occurred, its hashes).

        With ``stop_early`` the sum stops as soon as the best token can no longer be overtaken; the best
        token is then right, the other values may be too small.
        """
        out: dict[int, float] = {}
        left = 1.0
        longest = 0
        hashes = self.index.hashes(context)
        for order in reversed(self.index.orders):
            value = hashes.get(order)
            if value is None:
                continue
            shares = self._followers(order, value)
            if shares is None:
                continue
            longest = longest or order
            given = 0.0
            for token, share in shares:
                out[token] = out.get(token, 0.0) + left * share
                given += share
            left *= 1.0 - given
            if left < _LEFTOVER:
                break
            # Shorter contexts never give all of what is left to one token, so equality is enough.
            if stop_early and _lead(out) >= left:
                break
        return out or {EOS: 1.0}, longest, hashes

    def greedy(self, context: Sequence[int]) -> int:
        """The most probable next token; ties go to the smaller id."""
        return self.choose(context).token

    def choose(self, context: Sequence[int]) -> Choice:
        """The greedy choice, with a place where to read on."""
        key = tuple(context[-ORDERS[-1] :])
        choice = self._choices.get(key)
        if choice is None:
            found, longest, hashes = self._mix(key, stop_early=True)
            token = min(found.items(), key=lambda item: (-item[1], item[0]))[0]
            choice = self._with_place(token, longest, hashes)
            if len(self._choices) > _MEMO:
                self._choices.clear()
            self._choices[key] = choice
        return choice

    def _with_place(self, token: int, order: int, hashes: dict[int, int]) -> Choice:
        places = self.index.places(order, hashes[order]) if order else None
        if places is not None:
            for place in places.tolist():
                if self.index.tokens[place] == token:
                    return Choice(token, place + 1, order + 1)
        return Choice(token, -1, 0)

    def sample(self, context: Sequence[int], temperature: float, uniform: float) -> int:
        """The token at ``uniform`` (0..1) of the distribution sharpened by ``temperature``."""
        found = sorted(self.distribution(context).items())
        top = max(value for _, value in found)
        weights = [(token, (value / top) ** (1.0 / temperature)) for token, value in found]
        remaining = uniform * sum(weight for _, weight in weights)
        for token, weight in weights:
            remaining -= weight
            if remaining < 0:
                return token
        return weights[-1][0]

    def save(self, folder: Path) -> None:
        """Write ``model.npz`` (tokens, pieces; no pickles) and ``config.json``."""
        folder.mkdir(parents=True, exist_ok=True)
        pieces = np.frombuffer(json.dumps(self.tokenizer.pieces).encode(), dtype=np.uint8)
        with (folder / MODEL_FILE).open("wb") as stream:
            np.savez_compressed(stream, tokens=self.index.tokens, pieces=pieces)
        (folder / CONFIG_FILE).write_text(json.dumps(self.config, indent=2, sort_keys=True) + "\n")

    @classmethod
    def load(cls, folder: Path) -> NgramModel:
        """Read what :meth:`save` wrote. Raises OSError for a missing file, ValueError for a foreign one."""
        config = json.loads((folder / CONFIG_FILE).read_text())
        if config.get("treeline_format") != FORMAT:
            raise ValueError(
                f"{folder / CONFIG_FILE} says treeline_format {config.get('treeline_format')!r}; this engine "
                f"reads {FORMAT}. Train the model with python -m treeline_reference_engine.train."
            )
        with np.load(folder / MODEL_FILE, allow_pickle=False) as data:
            tokens = data["tokens"]
        return cls(cls.load_tokenizer(folder), tokens, config)

    @staticmethod
    def load_tokenizer(folder: Path) -> Tokenizer:
        """Only the tokenizer. Raises OSError for a missing file."""
        with np.load(folder / MODEL_FILE, allow_pickle=False) as data:
            return Tokenizer(json.loads(data["pieces"].tobytes().decode()))


def _lead(values: dict[int, float]) -> float:
    """How far the largest value is ahead of the second."""
    best = second = 0.0
    for value in values.values():
        if value > best:
            best, second = value, best
        elif value > second:
            second = value
    return best - second
