"""One line for each request of a load, in a compressed file; the texts themselves are never written.

The file is a sequence of gzip members, one for each batch, so that what was written stays readable when the
load is killed.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterable, Optional

from . import garble
from .files import make_folder
from .load_spec import ClientKey
from .load_stream import Exchange

FILE_NAME = "requests.ndjson.gz"
# Arrivals that are written for one request; of longer answers, every second, fourth, ... one.
MAX_ARRIVALS = 128
SAMPLE = 200


@dataclass
class Record:
    """One request: which phase and point it belongs to, when it was due, and what became of it.

    `intended` is when it was due (seconds, CLOCK_MONOTONIC): in a closed loop when its place became free.
    """

    phase: str
    key: ClientKey
    index: int
    intended: float
    exchange: Exchange
    repeat: int = 1
    garbled: Optional[garble.Report] = None
    characters_in: int = 0
    text_sha256: Optional[str] = None
    characters: int = 0
    sample: str = ""

    @property
    def judged(self) -> bool:
        """Whether the text has been judged, and forgotten."""
        return self.text_sha256 is not None

    def judge(self) -> None:
        """Run the garble detector on the output and hash it, once; then the text is forgotten."""
        if self.judged:
            return
        text = self.exchange.text
        if self.exchange.error is None:
            self.garbled = garble.inspect(text)
        self.text_sha256 = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
        self.characters = len(text)
        self.sample = text[:SAMPLE]
        self.exchange.text = ""

    def as_line(self, origin: float, arrivals: int = MAX_ARRIVALS) -> dict[str, Any]:
        """The record without any text; times in seconds since `origin`, arrivals since it was sent."""
        exchange = self.exchange
        error = exchange.error
        self.judge()
        step = max(1, -(-len(exchange.tick_times) // arrivals)) if arrivals else 0
        # Counted from the end, so that the last arrival is always there.
        kept = list(range(len(exchange.tick_times) - 1, -1, -step))[::-1] if step else []
        return {
            "phase": self.phase,
            "concurrency": self.key.concurrency,
            "context": self.key.context,
            "repeat": self.repeat,
            "index": self.index,
            "intended": _since(origin, self.intended),
            "sent": _since(origin, exchange.sent),
            "first": _since(origin, exchange.first),
            "last": _since(origin, exchange.last),
            "ended": _since(origin, exchange.ended),
            "chunks": exchange.chunks,
            "chunk_times": [round(exchange.tick_times[at] - exchange.sent, 5) for at in kept],
            "chunk_tokens": [exchange.tick_tokens[at] for at in kept],
            "retries": exchange.retries,
            "tokens": exchange.tokens,
            "prompt_tokens": exchange.prompt_tokens,
            "cached_tokens": exchange.cached_tokens,
            "verify_calls": exchange.verify_calls,
            "correct_drafts": exchange.correct_drafts,
            "finish": exchange.finish,
            "error": error.kind if error else None,
            "error_message": error.message if error else None,
            "status": error.status if error else None,
            "text_sha256": self.text_sha256,
            "characters": self.characters,
            "garble": self.garbled.verdict if self.garbled else None,
            "garble_reasons": list(self.garbled.reasons) if self.garbled else [],
        }


def _since(origin: float, at: Optional[float]) -> Optional[float]:
    return None if at is None else round(at - origin, 6)


class RecordFile:
    """Where the lines of one load go. An earlier one is removed: it would pass for this load's."""

    def __init__(self, out_dir: Path, origin: float) -> None:
        make_folder(out_dir, 0o700)
        self.path = out_dir / FILE_NAME
        self.path.unlink(missing_ok=True)
        self.path.touch(mode=0o600)
        self._origin = origin
        self.count = 0

    def append(self, records: Iterable[Record], arrivals: int = MAX_ARRIVALS) -> None:
        """Write a batch, durably enough to survive the death of this process. Raises OSError."""
        lines = [json.dumps(record.as_line(self._origin, arrivals)) + "\n" for record in records]
        if lines:
            with gzip.open(self.path, "at", encoding="utf-8", compresslevel=6) as stream:
                stream.writelines(lines)
            self.count += len(lines)
