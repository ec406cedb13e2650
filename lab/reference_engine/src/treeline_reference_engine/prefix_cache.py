"""Which prompts have been seen: the longest known prefix, in whole blocks.

Only the count matters here (there is no KV cache): it fills ``cached_tokens`` as a prefix cache would.
"""

from __future__ import annotations

from collections.abc import Sequence

BLOCK = 16
_MOST = 200_000


class PrefixCache:
    """A set of chained block hashes."""

    def __init__(self, enabled: bool = True, stocked: float = 0.0) -> None:
        """Make an empty one; ``stocked`` is the share of every prompt that it knows for ever."""
        self._enabled = enabled
        self._stocked = stocked
        self._known: set[int] = set()

    def match(self, ids: Sequence[int]) -> int:
        """Tokens of ``ids`` that are already there; at least one token is always left to compute."""
        matched = 0
        for key in _chain(ids):
            if key not in self._known:
                break
            matched += BLOCK
        matched = max(matched, int(self._stocked * len(ids)) // BLOCK * BLOCK)
        return min(matched, max(0, len(ids) - 1))

    def insert(self, ids: Sequence[int]) -> None:
        """Remember ``ids``."""
        if not self._enabled:
            return
        if len(self._known) > _MOST:
            self._known.clear()
        self._known.update(_chain(ids))

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()


def _chain(ids: Sequence[int]) -> list[int]:
    out = []
    key = 0
    for start in range(0, len(ids) - BLOCK + 1, BLOCK):
        key = hash((key, *ids[start : start + BLOCK]))
        out.append(key)
    return out
