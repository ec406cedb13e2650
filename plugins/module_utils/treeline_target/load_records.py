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


@dataclass
class Record:
    """One request: which phase and point it belongs to, when it was due, and what became of it.

    `intended` is when its place in the loop became free (seconds, CLOCK_MONOTONIC).
    """

    phase: str
    key: ClientKey
    index: int
    intended: float
    exchange: Exchange
    garbled: Optional[garble.Report] = None

    def judge(self) -> None:
        """Run the garble detector on the output, once."""
        if self.garbled is None and self.exchange.error is None:
            self.garbled = garble.inspect(self.exchange.text)

    def as_line(self, origin: float) -> dict[str, Any]:
        """The record without any text; times in seconds since `origin`."""
        exchange = self.exchange
        error = exchange.error
        return {
            "phase": self.phase,
            "concurrency": self.key.concurrency,
            "context": self.key.context,
            "index": self.index,
            "intended": _since(origin, self.intended),
            "sent": _since(origin, exchange.sent),
            "first": _since(origin, exchange.first),
            "last": _since(origin, exchange.last),
            "ended": _since(origin, exchange.ended),
            "chunks": exchange.chunks,
            "tokens": exchange.tokens,
            "prompt_tokens": exchange.prompt_tokens,
            "cached_tokens": exchange.cached_tokens,
            "verify_calls": exchange.verify_calls,
            "correct_drafts": exchange.correct_drafts,
            "finish": exchange.finish,
            "error": error.kind if error else None,
            "error_message": error.message if error else None,
            "status": error.status if error else None,
            "text_sha256": hashlib.sha256(exchange.text.encode("utf-8", "replace")).hexdigest(),
            "characters": len(exchange.text),
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

    def append(self, records: Iterable[Record]) -> None:
        """Write a batch, durably enough to survive the death of this process. Raises OSError."""
        lines = [json.dumps(record.as_line(self._origin)) + "\n" for record in records]
        if lines:
            with gzip.open(self.path, "at", encoding="utf-8", compresslevel=6) as stream:
                stream.writelines(lines)
            self.count += len(lines)
