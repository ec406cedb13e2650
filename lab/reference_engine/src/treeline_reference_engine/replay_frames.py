"""What the replay mode sends: answers cut into frames ahead of time, ready to be written.

A frame carries ``tokens_per_frame`` tokens, as one verify step of an engine does; the first carries the one
token that the prefill gives. So the counts are those of a real answer: verify calls = frames - 1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

_WORDS = (
    "the a small old quick heavy bright far near river bridge garden window letter winter morning station "
    "engine bottle carpet number answer question village teacher doctor finds keeps sends opens closes "
    "carries repairs measures counts under over beside behind before after with without slowly often"
)
_LENGTH = 512
_RECORDINGS = 16


@dataclass(frozen=True)
class Recording:
    """One recorded answer: the text of each token, and its id."""

    pieces: tuple[str, ...]
    ids: tuple[int, ...]

    def token(self, place: int) -> tuple[str, int]:
        """The token at ``place``; the recording begins anew behind its end."""
        at = place % len(self.pieces)
        return self.pieces[at], self.ids[at]


def load_recordings(path: Path) -> list[Recording]:
    """Recordings from a JSON file ``[{"pieces": [...], "ids": [...]}, ...]``.

    Raises OSError, and ValueError for another shape.
    """
    data = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(data, list) or not data:
        raise ValueError(f"{path}: a list of recordings is expected.")
    out = []
    for row in data:
        if not isinstance(row, Mapping) or not row.get("pieces"):
            raise ValueError(f"{path}: each recording needs 'pieces', a list of texts.")
        pieces = tuple(str(piece) for piece in row["pieces"])
        out.append(Recording(pieces, tuple(row.get("ids") or range(1, len(pieces) + 1))))
    return out


def made_up() -> list[Recording]:
    """Recordings by rule: words in a fixed disorder."""
    words = _WORDS.split()
    out = []
    for number in range(_RECORDINGS):
        state, ids = number + 1, []
        for _ in range(_LENGTH):
            state = (state * 1103515245 + 12345) % (1 << 31)
            ids.append(state // 65536 % len(words))
        out.append(Recording(tuple(f" {words[at]}" for at in ids), tuple(1000 + at for at in ids)))
    return out


def record(folder: Path) -> list[Recording]:
    """What a model writes after places of its own training text. Raises OSError and ValueError."""
    from .follow import Cursor, Reader
    from .model import ORDERS, NgramModel

    model = NgramModel.load(folder)
    reader, text = Reader(model), model.index.tokens.tolist()
    out = []
    for number in range(_RECORDINGS):
        start = number * len(text) // _RECORDINGS
        context, cursor = text[start : start + ORDERS[-1]], Cursor()
        for _ in range(_LENGTH):
            context.append(reader.next(context, [], cursor))
        ids = context[-_LENGTH:]
        out.append(Recording(tuple(model.tokenizer.decode([token]) for token in ids), tuple(ids)))
    return out


class Frames:
    """Frames of any answer, encoded once for each (recording, length, endpoint)."""

    def __init__(
        self, recordings: Sequence[Recording], tokens_per_frame: int, block_size: int, model: str
    ) -> None:
        self.recordings = recordings
        self._step = tokens_per_frame
        self._block_size = block_size
        self._model = model
        self.of = lru_cache(maxsize=256)(self._of)

    def counts(self, tokens: int) -> list[int]:
        """Tokens so far after each frame."""
        return [1, *range(1 + self._step, tokens, self._step), tokens] if tokens > 1 else [1]

    def _of(self, which: int, tokens: int, chat: bool) -> tuple[list[bytes], str, list[int]]:
        """(every frame but the last, the whole text, all ids)."""
        recording = self.recordings[which % len(self.recordings)]
        pairs = [recording.token(place) for place in range(tokens)]
        counts = self.counts(tokens)
        frames = []
        before = 0
        for calls, count in enumerate(counts[:-1]):
            text = "".join(piece for piece, _ in pairs[before if chat else 0 : count])
            if chat:
                body = self.chunk(
                    which, {"role": "assistant", "content": text} if not before else {"content": text}
                )
            else:
                ids = [token for _, token in pairs[:count]]
                body = self.native(which, text, ids, calls, None, {})
            frames.append(event(json.dumps(body, ensure_ascii=False)))
            before = count
        whole = "".join(piece for piece, _ in pairs)
        last = "".join(piece for piece, _ in pairs[before:]) if chat else whole
        return frames, last, [token for _, token in pairs]

    def native(
        self, which: int, text: str, ids: list[int], calls: int, finish: Any, more: Mapping[str, Any]
    ) -> dict[str, Any]:
        """One answer of /generate after ``calls`` verify calls."""
        meta = {"id": f"replay-{which}", "finish_reason": finish, "weight_version": "default", **more}
        meta |= {"completion_tokens": len(ids), "cached_tokens": 0, **self.speculation(len(ids), calls)}
        return {"text": text, "output_ids": ids, "meta_info": meta}

    def speculation(self, tokens: int, calls: int) -> dict[str, Any]:
        """The spec_* counts of an answer; the prefill gives its first token."""
        if not calls:
            return {}
        correct, proposed = tokens - 1 - calls, calls * (self._block_size - 1)
        full, rest = divmod(tokens - 1, self._step)
        histogram = [0] * self._block_size
        histogram[self._step - 1] += full
        if rest:
            histogram[rest - 1] += 1
        return {
            "spec_accept_rate": correct / proposed,
            "spec_accept_length": tokens / calls,
            "spec_num_correct_drafts": correct,
            "spec_num_proposed_drafts": proposed,
            "spec_verify_ct": calls,
            "spec_correct_drafts_histogram": histogram,
        }

    def chunk(self, which: int, delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
        """One chunk of a chat's stream."""
        choice = {
            "index": 0,
            "delta": dict(delta),
            "logprobs": None,
            "finish_reason": finish,
            "matched_stop": None,
        }
        return {**self.head(which, "chat.completion.chunk"), "choices": [choice], "usage": None}

    def head(self, which: int, kind: str) -> dict[str, Any]:
        """What every OpenAI answer begins with."""
        return {"id": f"replay-{which}", "object": kind, "created": 0, "model": self._model}


def event(text: str) -> bytes:
    """One event of a stream, as a chunk of HTTP."""
    data = f"data: {text}\n\n".encode()
    return b"%x\r\n%s\r\n" % (len(data), data)
