"""Read one variable's value: from -e text, JSON or YAML to numbers, switches and names.

Each reader returns the value or raises `FaultError`; no other exception leaves it, whatever it is given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from treeline.keys import BACKEND_PATTERN, SWITCH_WORDS
from treeline.request.problems import FaultError, show

T = TypeVar("T")

# Far beyond any engine; it keeps arithmetic and file names small and catches slips such as 1600000000.
LARGEST = 1_000_000
LONGEST_AXIS = 1_000
LONGEST_S = 24 * 3600

_NOTHING = {"~", "null", "none"}
_BLANKS = " \t\r\n"
_LONGEST_NAME = 64
# int() also takes digits of other scripts, signs, underscores and blanks; a typed number has none of these.
_DIGITS = re.compile(r"[0-9]+")
_DECIMAL = re.compile(r"[0-9]{1,9}(\.[0-9]{1,6})?")
_UNITS = {"s": 1, "m": 60, "h": 3600}
_BACKEND = re.compile(BACKEND_PATTERN)


def whole(value: Any, smallest: int = 1) -> int:
    """A whole number from ``smallest`` to LARGEST, as a number or as text."""
    wrong = f"is not a whole number >= {smallest}"
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise FaultError(value, wrong)
    if isinstance(value, int):
        number = value
    else:
        digits = value.strip(_BLANKS)
        if not digits:
            raise FaultError(value, "is empty")
        if not _DIGITS.fullmatch(digits):
            raise FaultError(value, wrong)
        digits = digits.lstrip("0") or "0"
        if len(digits) > len(str(LARGEST)):
            raise FaultError(value, f"is larger than {LARGEST}")
        number = int(digits)
    if number < smallest:
        raise FaultError(value, wrong)
    if number > LARGEST:
        raise FaultError(value, f"is larger than {LARGEST}")
    return number


def hours(value: Any) -> float:
    """A number of hours greater than 0, as a number or as text."""
    number = _decimal(value, "is not a number of hours > 0")
    if number <= 0:
        raise FaultError(value, "is not a number of hours > 0")
    if number > LARGEST:
        raise FaultError(value, f"is larger than {LARGEST}")
    return number


def seconds(value: Any) -> float:
    """A time in seconds, 0 or more: a number of seconds, or one with s, m or h behind it, such as ``10m``."""
    wrong = "is not a time such as 10m, 600 or 1h"
    unit = 1
    number = value
    if isinstance(value, str):
        number = value.strip(_BLANKS)
        if number[-1:].lower() in _UNITS:
            number, unit = number[:-1], _UNITS[number[-1].lower()]
    try:
        total = _decimal(number, wrong) * unit
    except FaultError as fault:
        raise FaultError(value, fault.wrong) from None
    if total > LONGEST_S:
        raise FaultError(value, f"is longer than {LONGEST_S / 3600:g}h")
    return total


def _decimal(value: Any, wrong: str) -> float:
    """A decimal number that is not negative, as a number or as plain digits."""
    if isinstance(value, str):
        digits = value.strip(_BLANKS)
        if not digits:
            raise FaultError(value, "is empty")
        if not _DECIMAL.fullmatch(digits):
            raise FaultError(value, wrong)
        return float(digits)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
        raise FaultError(value, wrong)
    return float(value)


def switch(value: Any) -> bool:
    """On or off, as a boolean or as one of the words on/off/yes/no/true/false."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        known = SWITCH_WORDS.get(value.strip().lower())
        if known is not None:
            return known
        if not value.strip():
            raise FaultError(value, "is empty")
    raise FaultError(value, "is neither on nor off")


def switches(value: Any) -> tuple[bool, ...]:
    """One or both states of a switch: a word of `switch`, ``both``, or a list of such words."""
    states: list[bool] = []
    for entry in entries(value):
        if isinstance(entry, str) and entry.strip().lower() == "both":
            states += [True, False]
        else:
            states.append(_entry(switch, entry, value))
    return distinct(states)


def backend(value: Any) -> str:
    """The name of an attention backend: one plain word, because it goes into file names and arguments."""
    if not isinstance(value, str):
        raise FaultError(value, "is not a name")
    name = value.strip()
    if not name:
        raise FaultError(value, "is empty")
    if len(name) > _LONGEST_NAME or not _BACKEND.match(name):
        raise FaultError(value, "is not one plain word of letters, digits, '.', '_' and '-'")
    return name


def word(value: Any, allowed: Iterable[str]) -> str:
    """One of a few words, in any case."""
    known = list(allowed)
    if isinstance(value, str) and value.strip().lower() in known:
        return value.strip().lower()
    raise FaultError(value, f"is not one of {', '.join(known)}")


def text(value: Any) -> str:
    """Text that is not empty and has no control characters, such as a path or the name of a dialect."""
    if not isinstance(value, str):
        raise FaultError(value, "is not text")
    stripped = value.strip()
    if not stripped:
        raise FaultError(value, "is empty")
    if any(ord(character) < 32 or ord(character) == 127 for character in stripped):
        raise FaultError(value, "holds a control character")
    return stripped


def entries(value: Any) -> list[Any]:
    """The entries of an axis: a list's items, the parts of a comma list, or the one value itself.

    A comma list may stand in brackets, which is what ``-e budget=[8,16]`` arrives as.
    """
    if isinstance(value, (list, tuple)):
        found: list[Any] = list(value)
        if not found:
            raise FaultError(value, "is an empty list")
    elif isinstance(value, str):
        inner = value.strip()
        if inner.startswith("[") and inner.endswith("]"):
            inner = inner[1:-1].strip()
        if not inner:
            raise FaultError(value, "is empty")
        found = [part.strip(_BLANKS) for part in inner.split(",")]
        if "" in found:
            raise FaultError(value, "has an empty entry")
    else:
        found = [value]
    if len(found) > LONGEST_AXIS:
        raise FaultError(value, f"has {len(found)} entries; at most {LONGEST_AXIS} are taken")
    return found


def axis(value: Any, read: Callable[[Any], T]) -> tuple[T, ...]:
    """Every entry of an axis through ``read``: distinct, in the order given."""
    return distinct(_entry(read, entry, value) for entry in entries(value))


def optional(read: Callable[[Any], T]) -> Callable[[Any], T | None]:
    """A reader that also takes ``none`` (inside a list: the case without the setting)."""

    def read_or_none(value: Any) -> T | None:
        return None if is_nothing(value) else read(value)

    return read_or_none


def is_nothing(value: Any) -> bool:
    """Whether a value says "not set": null, or one of the words none, null and ~."""
    return value is None or (isinstance(value, str) and value.strip().lower() in _NOTHING)


def distinct(values: Iterable[T]) -> tuple[T, ...]:
    """The values once each, in the order of their first appearance."""
    return tuple(dict.fromkeys(values))


def _entry(read: Callable[[Any], T], entry: Any, whole_value: Any) -> T:
    """Read one entry; its fault also shows the list that it stands in."""
    try:
        return read(entry)
    except FaultError as fault:
        if isinstance(whole_value, (list, tuple)) or (isinstance(whole_value, str) and "," in whole_value):
            fault.shown = f"{fault.shown} in {show(whole_value)}"
        raise
