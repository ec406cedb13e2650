"""Write values into systemd unit files and environment files so that the process gets them unchanged.

The two syntaxes differ. In a unit, ``%`` starts a specifier everywhere and ``$`` a variable in ``Exec``
lines; an environment file knows neither, but reads backslashes as a shell does inside double quotes.
Sources: systemd.syntax(7), systemd.service(5) "Command lines", systemd.exec(5) "EnvironmentFile=".
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Literal

Setting = Literal["exec", "environment", "value"]
SETTINGS: tuple[Setting, ...] = ("exec", "environment", "value")

_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN = re.compile(r"[A-Za-z0-9_./:=,+@-]+")
# The first word of an Exec line may start with these prefixes; a value must not turn into one.
_PLAIN_START = re.compile(r"[A-Za-z0-9_./-]")
_UNIT_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "%": "%%"}
_FILE_ESCAPES = {"\\": "\\\\", '"': '\\"', "`": "\\`", "$": "\\$"}


def quote_word(value: object, setting: Setting = "exec") -> str:
    """Quote one word for a unit file.

    Args:
        value: text or number; ``True``/``False`` are refused, because a unit has no one spelling for them.
        setting: ``exec`` for words of Exec lines, ``environment`` for ``Environment=``, ``value`` for other
            settings that take a list of words.

    Raises:
        ValueError: the value is no text or number, or holds a character that a unit cannot carry.
    """
    if setting not in SETTINGS:
        raise ValueError(f"systemd quoting: setting {setting!r} is not one of {', '.join(SETTINGS)}")
    text = _text(value)
    if _PLAIN.fullmatch(text) and _PLAIN_START.match(text):
        return text
    escapes = _UNIT_ESCAPES | ({"$": "$$"} if setting == "exec" else {})
    return f'"{_escape(text, escapes)}"'


def command_line(argv: Iterable[object]) -> str:
    """The words of an ``ExecStart=`` line that runs ``argv``.

    Raises:
        ValueError: ``argv`` is empty, its program is no plain absolute path, or a word cannot be carried.
    """
    words = list(argv)
    if not words:
        raise ValueError("systemd quoting: the command line is empty")
    program = _text(words[0])
    if not (program.startswith("/") and _PLAIN.fullmatch(program)):
        raise ValueError(
            f"systemd quoting: the program {program!r} must be an absolute path of letters, digits, ._/:=,+@-"
        )
    return " ".join(quote_word(word, "exec") for word in words)


def environment_settings(variables: Mapping[str, object]) -> list[str]:
    """One ``Environment=`` argument for each variable, in the order given; ``None`` leaves a variable out.

    Raises:
        ValueError: a name is not a variable name, or a value cannot be carried.
    """
    return [
        quote_word(f"{_name(name)}={_variable(name, value)}", "environment")
        for name, value in variables.items()
        if value is not None
    ]


def environment_file(variables: Mapping[str, object]) -> str:
    """The text of an ``EnvironmentFile=``, one variable a line, sorted by name; ``None`` leaves one out.

    Raises:
        ValueError: a name is not a variable name, or a value cannot be carried.
    """
    lines = [
        f'{_name(name)}="{_escape(_variable(name, value), _FILE_ESCAPES)}"\n'
        for name, value in sorted(variables.items())
        if value is not None
    ]
    return "".join(lines)


def is_loopback(host: str) -> bool:
    """Whether a listen address reaches only this machine; a name other than ``localhost`` counts as not."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _escape(text: str, escapes: Mapping[str, str]) -> str:
    return "".join(escapes.get(character, character) for character in text)


def _name(name: object) -> str:
    if not isinstance(name, str) or not _ENVIRONMENT_NAME.fullmatch(name):
        raise ValueError(f"environment: {name!r} is not a variable name (letters, digits, _; no digit first)")
    return str(name)


def _variable(name: object, value: object) -> str:
    """The value of a variable as text. Errors name the variable only, because its value may be secret."""
    return _text(value, f"environment: the value of {_name(name)}")


def _text(value: object, what: str | None = None) -> str:
    """The value as text; control characters are refused, newline and tab apart, as systemd does."""
    what = what or f"systemd quoting: {value!r}"
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        kind = type(value).__name__
        raise ValueError(f"{what} is not text or a number but {kind} (put true and false in quotes)")
    text = str(value)
    for character in text:
        if (ord(character) < 32 and character not in "\n\t") or ord(character) == 127:
            raise ValueError(f"{what} holds the control character {character!r}")
    return text
