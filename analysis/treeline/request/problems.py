"""What is wrong with a request, said once for everything that is wrong."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

SHOWN_LENGTH = 60
SHOWN_PROBLEMS = 25


class Problem(msgspec.Struct, frozen=True):
    """One fault: which variable, its value (as shown), what is wrong, where it came from, what is allowed.

    ``suggestion`` is the name that was probably meant, for a name that nothing declares.
    """

    variable: str
    wrong: str
    shown: str = ""
    origin: str = ""
    allowed: str = ""
    suggestion: str = ""

    @property
    def text(self) -> str:
        """One line, such as ``budget: 'abc' is not a whole number >= 1 (given with -e). Allowed: ...``."""
        value = f"{self.shown} " if self.shown else ""
        origin = f" ({self.origin})" if self.origin else ""
        allowed = f". Allowed: {self.allowed}" if self.allowed else ""
        meant = f" Did you mean {self.suggestion}?" if self.suggestion else ""
        return f"{self.variable}: {value}{self.wrong}{origin}{allowed}.{meant}"


class RequestError(ValueError):
    """The request cannot be run. ``problems`` holds every fault that was found; ``str()`` says them all."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(_message([problem.text for problem in self.problems]))


class FaultError(Exception):
    """A value that cannot be used. Only inside this package: it becomes a Problem."""

    def __init__(self, value: Any, wrong: str) -> None:
        super().__init__(wrong)
        self.shown = show(value)
        self.wrong = wrong


def show(value: Any) -> str:
    """A value as the user would recognise it, on one line and short."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    try:
        text = repr(value)
    except ValueError:  # an int of more than 4300 digits, alone or inside a list
        return "a number of thousands of digits"
    return text if len(text) <= SHOWN_LENGTH else f"{text[:SHOWN_LENGTH]}..."


def _message(lines: list[str]) -> str:
    if len(lines) == 1:
        return lines[0]
    shown = lines[:SHOWN_PROBLEMS]
    if len(lines) > SHOWN_PROBLEMS:
        shown.append(f"and {len(lines) - SHOWN_PROBLEMS} more like these.")
    head = f"{len(lines)} problems with the variables of this run:"
    return "\n".join([head, *(f"  - {line}" for line in shown)])
