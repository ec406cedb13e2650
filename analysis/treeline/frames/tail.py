"""How far a file of JSON lines is good, without reading all of it."""

from __future__ import annotations

import mmap
from pathlib import Path

from treeline.jsonl import StoreError, is_json


def good_bytes(path: Path) -> tuple[int, int]:
    """Return how many bytes of whole lines a file begins with, and the bytes of a torn last line (0: none).

    A line is whole when it ends in a newline and, where it is the last, is JSON. A missing file has none.

    Raises:
        StoreError: the file cannot be read.
    """
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, 2)
            if size == 0:
                return 0, 0
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                end = data.rfind(b"\n") + 1
                start = data.rfind(b"\n", 0, max(end - 1, 0)) + 1
                if end and not is_json(data[start : end - 1]):
                    end = start
                return end, size - end
    except FileNotFoundError:
        return 0, 0
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
