"""Frames of /generate's event stream, made from the news of each step.

A frame carries the whole text and all ids so far, as SGLang's does by default. They are kept in encoded form,
so that a long answer does not cost its length again at every step.
"""

from __future__ import annotations

import json

from .tokenizer_manager import Answer


class NativeFrames:
    """Encodes one answer as it grows."""

    def __init__(self) -> None:
        self._text = ""
        self._ids = ""
        self._seen_text = 0
        self._seen_ids = 0

    def frame(self, answer: Answer) -> bytes:
        """The event of the answer's present state."""
        if answer.rewritten or len(answer.text) < self._seen_text:
            self._text, self._seen_text = "", 0
        self._text += json.dumps(answer.text[self._seen_text :], ensure_ascii=False)[1:-1]
        self._seen_text = len(answer.text)
        if len(answer.ids) > self._seen_ids:
            fresh = ", ".join(map(str, answer.ids[self._seen_ids :]))
            self._ids = f"{self._ids}, {fresh}" if self._ids else fresh
            self._seen_ids = len(answer.ids)
        body = f'data: {{"text": "{self._text}", "output_ids": [{self._ids}], "meta_info": '
        return (body + json.dumps(answer.meta_info(), ensure_ascii=False) + "}\n\n").encode(
            "utf-8", "replace"
        )
