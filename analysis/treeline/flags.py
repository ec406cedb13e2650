"""Turn a mapping of command-line flags into the words of a command line."""

from __future__ import annotations

import re
from collections.abc import Mapping

_FLAG = re.compile(r"(?:--)?([A-Za-z0-9][A-Za-z0-9_.-]*)")


def flag_words(flags: Mapping[str, object]) -> list[str]:
    """Words for ``flags``, in the order given; names may be written with or without their two dashes.

    ``True`` is a bare flag; ``None`` and ``False`` leave the flag out; a list is the flag and its items;
    anything else is the flag and the value as text.

    Raises:
        ValueError: a name is not that of a long flag, or a value is a mapping.
    """
    words: list[str] = []
    for name, value in flags.items():
        named = _FLAG.fullmatch(name) if isinstance(name, str) else None
        if named is None:
            raise ValueError(f"flags: {name!r} is not a flag such as --page-size")
        flag = f"--{named.group(1)}"
        if isinstance(value, Mapping):
            raise ValueError(f"flags: {flag} is a mapping. Allowed: text, a number, true, false or a list")
        if value is None or value is False:
            continue
        words.append(flag)
        if value is True:
            continue
        items = value if isinstance(value, (list, tuple)) else [value]
        words.extend(str(item) for item in items)
    return words
