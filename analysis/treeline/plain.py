"""From what Ansible hands over to plain Python values, safe to keep and to write as JSON."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

MAX_TEXT = 2000
_LARGEST_WHOLE = 2**63
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


def to_plain(value: Any) -> Any:
    """Exact dict, list, str, int, float, bool or None; anything else becomes its text.

    Ansible tags its values with subclasses of these types; the tags (and their origin) are dropped. JSON has
    no infinities and no NaN: they become None.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return "".join(value).encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, int):
        return int(value) if abs(value) < _LARGEST_WHOLE else str(int(value))
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(to_plain(key)): to_plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_plain(entry) for entry in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)


def clean(text: Any, limit: int = MAX_TEXT) -> str:
    """One readable text of at most ``limit`` characters: no terminal escapes or control characters."""
    plain = _CONTROL.sub("", _ESCAPES.sub("", str(to_plain(text)))).strip()
    return plain if len(plain) <= limit else plain[: limit - 1] + "…"
