"""Text to token ids and back, without loss.

Pieces come from one regular expression; a piece that is not in the vocabulary falls back to its characters,
and a character that is not in the vocabulary falls back to its UTF-8 bytes. ``decode(encode(text)) == text``
for every string without the text of the end marker being special (the marker is an id, never text).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

# A word or a digit may carry the space before it, as in the tokenizers of large models; a line break
# carries the indentation after it. Whatever is left is taken one character at a time.
_PIECE = re.compile(r" ?[A-Za-z_]+| ?\d|\n[ \t]*|[ \t]+| ?[^\w\s]|.", re.DOTALL)

EOS = 0
_FIRST_BYTE = 1
_FIRST_PIECE = _FIRST_BYTE + 256
MAX_VOCABULARY = 60_000  # ids are stored as 16-bit numbers


class Tokenizer:
    """A fixed vocabulary of pieces. Ids: 0 is the end marker, 1..256 the bytes, then the pieces."""

    def __init__(self, pieces: Sequence[str]) -> None:
        if len(pieces) + _FIRST_PIECE > MAX_VOCABULARY:
            raise ValueError(
                f"{len(pieces)} pieces are too many; at most {MAX_VOCABULARY - _FIRST_PIECE} fit"
            )
        self.pieces = list(pieces)
        self._ids = {piece: _FIRST_PIECE + number for number, piece in enumerate(self.pieces)}
        self._bytes: list[bytes] = [b""]
        self._bytes += [bytes([value]) for value in range(256)]
        self._bytes += [piece.encode("utf-8", "surrogatepass") for piece in self.pieces]

    @property
    def size(self) -> int:
        """Number of ids."""
        return len(self._bytes)

    @classmethod
    def train(cls, texts: Iterable[str], limit: int = 12_000) -> Tokenizer:
        """The ``limit`` most frequent pieces (ties by spelling) plus every printable ASCII character."""
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(_PIECE.findall(text))
        singles = [chr(code) for code in range(32, 127)] + ["\n", "\t"]
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        taken = set(singles)
        pieces = singles + [piece for piece, _ in ranked if piece not in taken][:limit]
        return cls(pieces)

    def encode(self, text: str) -> list[int]:
        """Ids of ``text``; no end marker is added."""
        out: list[int] = []
        known = self._ids.get
        for piece in _PIECE.findall(text):
            number = known(piece)
            if number is not None:
                out.append(number)
                continue
            for character in piece:
                number = known(character)
                if number is not None:
                    out.append(number)
                else:
                    out.extend(_FIRST_BYTE + value for value in character.encode("utf-8", "surrogatepass"))
        return out

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """UTF-8 bytes of ``ids``; the end marker gives nothing."""
        table = self._bytes
        return b"".join(table[number] for number in ids)

    def decode(self, ids: Iterable[int]) -> str:
        """Text of ``ids``; bytes that do not form UTF-8 (a cut character) become U+FFFD."""
        raw = self.decode_bytes(ids)
        try:
            return raw.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return raw.decode("utf-8", "replace")
