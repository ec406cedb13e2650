"""Keep secrets out of everything that is stored, returned or shown."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Sequence

HIDDEN = "***"
# The words with which names of secrets end; every pattern below is built from them.
_WORDS = "key|token|secret|password|passwd|passphrase|credential|authorization"
_SECRET_NAME = re.compile(r"(?:^|[-_.])(?:api)?(?:%s)s?$" % _WORDS, re.IGNORECASE)
# Named like secrets, but counts or marks of a vocabulary that a reader needs.
_HARMLESS_NAME = re.compile(
    r"(?:^|[-_.])(?:(?:max|min|num|total)[-_](?:.*[-_])?"
    r"|(?:new|draft|prefill|decode|size|pad|eos|bos|unk|sep|cls|mask|stop"
    r"|cached|prompt|completion|input|output|accepted|reasoning)[-_])tokens?$"
)
_WORD_IN_TEXT = re.compile(_WORDS.encode())
_NAME_BYTES = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
_LONGEST_NAME = 64
_NUMBER = re.compile(rb"[+-]?\d+(?:\.\d+)?")
_NOTHING = frozenset((b"", b"***", b"none", b"null", b"true", b"false"))
# A quoted value ends where its own quote does, and never runs out of the JSON text around it.
_JSON_ENDS = rb'"\s*(?:[,}\]:]|\Z)'
_AFTER_NAME = re.compile(
    rb"""
    [sS]?
    (?: \\*["']? \s* (?P<mark>[=:]) \s*                  # NAME=..., 'name': ..., \"name\": ...
      | (?P<flag> \s+ | \\*["'] , \s* (?=\\*["']) ) )    # --name ..., '--name', '...'
    (?: (?:Bearer|Basic) \s+ )?
    (?! %(ends)s )
    (?: (?P<quote>["']) (?P<quoted> (?: (?!(?P=quote)|%(ends)s) (?:\\.|[^\\]) )* )
      | (?P<escaped>\\+["']) (?P<inner> (?: (?!(?P=escaped)|%(ends)s) (?:\\+.|[^\\]) )* )
      | (?P<bare> [^\s"'\\,;(){}\[\]&<>`]+ ) )
    """
    % {b"ends": _JSON_ENDS},
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
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


def text(raw: bytes) -> bytes:
    """A line of any text with the values of secret names replaced by `***`, as it was otherwise.

    Known are `name='...'`, `"name": "..."` (also inside JSON texts), `NAME=...`, `name: ...` and
    `--name ...`, in a command line or in a printed list. Numbers of tokens and absent values stay.
    """
    shown: list[bytes] = []
    done = 0
    # Case is folded once for the whole line: searching for the words regardless of case is slow.
    for word in _WORD_IN_TEXT.finditer(raw.lower()):
        found = _AFTER_NAME.match(raw, word.end()) if word.start() >= done else None
        if found is None:
            continue
        value = next(group for group in ("quoted", "inner", "bare") if found[group] is not None)
        if _holds_secret(_name_ending(raw, word.end()), found, value):
            shown += [raw[done : found.start(value)], HIDDEN.encode()]
            done = found.end(value)
    return b"".join([*shown, raw[done:]]) if shown else raw


def _name_ending(raw: bytes, end: int) -> str:
    before = raw[max(end - _LONGEST_NAME, 0) : end]
    return before[len(before.rstrip(_NAME_BYTES)) :].decode("ascii")


def _holds_secret(name: str, found: re.Match[bytes], value: str) -> bool:
    said = found[value]
    if said.lower() in _NOTHING or not is_secret_name(name):
        return False
    if name.lower().endswith("token") and _NUMBER.fullmatch(said):
        return False
    if found["flag"] is not None:
        return name.startswith("--") and not said.startswith(b"-")
    # These two alone are everyday words: a dict's `key`, the `token: ...` of a message.
    if name.lower() == "key":
        return False
    return not (name.lower() == "token" and found["mark"] == b":" and value == "bare")


def digest(value: Any) -> str:
    """SHA-256 of JSON data: equality of what may not be stored."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode("utf-8")).hexdigest()
