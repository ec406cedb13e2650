"""Keep secrets out of everything that is stored, returned or shown."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Sequence

HIDDEN = "***"
_SECRET_NAME = re.compile(
    r"(?:^|[-_.])(?:api[-_]?key|key|token|secret|password|passwd|passphrase|credential)s?$", re.IGNORECASE
)
# Named like secrets, but numbers or paths that a reader needs.
_HARMLESS_NAME = re.compile(
    r"(?:max|min|num|total|new|draft|prefill|decode|size|pad|eos|bos)[-_].*tokens?$|key[-_]?file$"
)


def is_secret_name(name: str) -> bool:
    """Whether an option, variable or field of this name holds a secret (api_key, HF_TOKEN, --password)."""
    bare = name.lstrip("-")
    return bool(_SECRET_NAME.search(bare)) and not _HARMLESS_NAME.search(bare.lower())


def argv(words: Sequence[str]) -> list[str]:
    """A command line with the values of secret options replaced by `***`."""
    shown: list[str] = []
    hide_next = False
    for word in words:
        name, sep, _ = word.partition("=")
        if hide_next and not word.startswith("--"):
            shown.append(HIDDEN)
        elif word.startswith("-") and is_secret_name(name):
            shown.append("%s=%s" % (name, HIDDEN) if sep else word)
        elif sep and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and is_secret_name(name):
            shown.append("%s=%s" % (name, HIDDEN))
        else:
            shown.append(word)
        hide_next = word.startswith("-") and not sep and is_secret_name(name)
    return shown


def assignment(text: str) -> str:
    """`NAME=value` with the value hidden when the name says that it is a secret."""
    name, sep, _ = text.partition("=")
    return "%s=%s" % (name, HIDDEN) if sep and is_secret_name(name) else text


def fields(value: Any) -> Any:
    """JSON data with the texts of secret fields replaced by `***`, at any depth; command lines included."""
    if isinstance(value, dict):
        return {
            key: HIDDEN if isinstance(entry, str) and entry and is_secret_name(str(key)) else fields(entry)
            for key, entry in value.items()
        }
    if isinstance(value, list):
        if value and all(isinstance(entry, str) for entry in value):
            return argv(value)
        return [fields(entry) for entry in value]
    return value


def digest(value: Any) -> str:
    """SHA-256 of JSON data: equality of what may not be stored."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode("utf-8")).hexdigest()
