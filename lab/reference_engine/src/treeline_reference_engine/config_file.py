"""``--config FILE``: flags from a YAML file, as SGLang takes them; those on the command line win.

Lab hosts have no YAML library, so only what a flat file of settings needs is read: ``name: value`` lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

FLAG = "--config"


class ConfigFileError(ValueError):
    """The file cannot be read or holds more than settings; the message names it."""


def merged(argv: Sequence[str]) -> list[str]:
    """The command line with the file's settings in front of it, and without ``--config``.

    Raises ConfigFileError.
    """
    words, path = _taken_out(list(argv))
    return words if path is None else [*_flags(Path(path)), *words]


def _taken_out(words: list[str]) -> tuple[list[str], str | None]:
    for at, word in enumerate(words):
        if word.startswith(f"{FLAG}="):
            return words[:at] + words[at + 1 :], word.partition("=")[2]
        if word == FLAG:
            if at + 1 == len(words):
                raise ConfigFileError(f"argument {FLAG}: expected one argument")
            return words[:at] + words[at + 2 :], words[at + 1]
    return words, None


def _flags(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigFileError(f"config file {path}: {error.strerror}") from error
    flags: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        setting = line.split(" #")[0].rstrip()
        if not setting or setting.lstrip().startswith("#") or setting in ("---", "{}"):
            continue
        name, colon, value = setting.partition(":")
        if not colon or name != name.strip() or not name:
            raise ConfigFileError(f"config file {path}, line {number}: only `name: value` is read here")
        word = value.strip().strip("'\"")
        if word.lower() == "false":
            continue
        flags += [f"--{name.replace('_', '-')}", *([] if word.lower() == "true" else [word])]
    return flags
