"""Prompts from files that users have: JSON lines of their own, and the files of public benchmarks.

What a file is, is told by the names in its entries. Each entry gives one prompt:

====================  ==============================================  ===============================
file                  shape                                           prompt
====================  ==============================================  ===============================
one's own             JSON lines, ``prompt`` or ``text``, or strings  it
one's own, chat       JSON lines, ``messages``                        the contents of the user's
GSM8K, MATH           JSON lines, ``question`` or ``problem``         it
HumanEval, MBPP       JSON lines, ``prompt`` (or ``text``)            it
MT-bench              JSON lines, ``turns``                           the first turn
Alpaca                JSON or JSON lines, ``instruction``, ``input``  both
ShareGPT              JSON, ``conversations`` of ``from``, ``value``  the first turn of the human
====================  ==============================================  ===============================
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from treeline.material import MaterialError

MAX_FILE = 2 * 1024**3
# Longer ones are rather data that strayed in than prompts.
MAX_PROMPT = 4 * 1024 * 1024
KNOWN = "prompt, text, question, problem, messages, turns, instruction or conversations"
_DECODE = msgspec.json.Decoder().decode


def read(path: Path) -> list[str]:
    """All prompts of one file, in its order; entries without one (an empty conversation) are left out.

    Raises:
        MaterialError: the file cannot be read, an entry is not understood, or there is no prompt in it.
    """
    try:
        if path.stat().st_size > MAX_FILE:
            raise MaterialError(f"prompt_files: {path} is larger than {MAX_FILE >> 30} GiB")
        data = path.read_bytes()
    except OSError as error:
        raise MaterialError(f"prompt_files: {path} cannot be read: {error.strerror or error}") from error
    found = [text for text in _prompts(path, data) if text.strip() and len(text) <= MAX_PROMPT]
    if not found:
        raise MaterialError(f"prompt_files: {path} holds no prompt; entries with {KNOWN} are understood")
    return found


def choose(paths: Iterable[Path], count: int, seed: str) -> list[str]:
    """Prompts of all files together, at most ``count``, each once; the same seed chooses the same.

    Raises MaterialError.
    """
    prompts = list(dict.fromkeys(prompt for path in paths for prompt in read(path)))
    if len(prompts) <= count:
        return prompts
    return random.Random(seed).sample(prompts, count)  # noqa: S311 - a choice that can be made again


def _prompts(path: Path, data: bytes) -> Iterator[str]:
    if data.lstrip()[:1] == b"[":
        try:
            entries = _DECODE(data)
        except msgspec.DecodeError as error:
            raise MaterialError(f"prompt_files: {path} is not JSON: {error}") from error
        for number, entry in enumerate(entries, 1):
            yield _prompt(entry, f"{path}, entry {number}")
        return
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            entry = _DECODE(line)
        except msgspec.DecodeError as error:
            raise MaterialError(f"prompt_files: {path}, line {number} is not JSON: {error}") from error
        yield _prompt(entry, f"{path}, line {number}")


def _prompt(entry: Any, where: str) -> str:
    """The prompt of one entry; empty where it has none. Raises MaterialError for an entry of another kind."""
    if isinstance(entry, str):
        return entry
    if isinstance(entry, Mapping):
        for name, take in _TAKERS.items():
            if name in entry:
                return take(entry)
    raise MaterialError(f"prompt_files: {where} is not understood; entries with {KNOWN} are")


def _named(name: str) -> Callable[[Mapping[str, Any]], str]:
    def take(entry: Mapping[str, Any]) -> str:
        value = entry[name]
        return value if isinstance(value, str) else ""

    return take


def _instruction(entry: Mapping[str, Any]) -> str:
    parts = [entry.get("instruction"), entry.get("input")]
    return "\n\n".join(part for part in parts if isinstance(part, str) and part)


def _first_turn(entry: Mapping[str, Any]) -> str:
    turns = entry["turns"]
    first = turns[0] if isinstance(turns, list) and turns else ""
    return first if isinstance(first, str) else ""


def _messages(entry: Mapping[str, Any]) -> str:
    messages = entry["messages"]
    said = [
        one["content"]
        for one in (messages if isinstance(messages, list) else [])
        if isinstance(one, Mapping) and one.get("role") == "user" and isinstance(one.get("content"), str)
    ]
    return "\n\n".join(said)


def _human(entry: Mapping[str, Any]) -> str:
    turns = entry["conversations"]
    first = turns[0] if isinstance(turns, list) and turns else None
    if isinstance(first, Mapping) and first.get("from") in ("human", "user"):
        return str(first.get("value") or "")
    return ""


# The first name that an entry has decides; HumanEval's and MBPP's entries have others beside it.
_TAKERS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "conversations": _human,
    "messages": _messages,
    "turns": _first_turn,
    "prompt": _named("prompt"),
    "question": _named("question"),
    "problem": _named("problem"),
    "instruction": _instruction,
    "text": _named("text"),
}
