"""Read a file of configurations: CSV with a header, or YAML (points_yaml).

Columns and keys are the names of the restart key and client key variables. Values are kept as text (lists as
lists of text) and are read later by the readers that also read ``-e`` values.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from treeline.request.problems import Problem
from treeline.request.public import ALLOWED_IN_POINT, CLIENT_VARIABLES, nearest
from treeline.request.values import is_nothing

LARGEST_FILE = 1_000_000
SUFFIXES = (".csv", ".yml", ".yaml")


class Point(msgspec.Struct, frozen=True):
    """One configuration as written: the values that were given, and the line it stands on."""

    line: int
    values: dict[str, Any]


class PointsFile(msgspec.Struct):
    """A file as read: its configurations, or the problems that keep them from being used."""

    name: str
    points: list[Point] = []
    settings: dict[str, Any] = {}
    problems: list[Problem] = []

    def origin(self, line: int) -> str:
        """Where a value stands, for a message."""
        return f"{self.name}, line {line}"

    def complain(self, line: int, wrong: str, allowed: str = "", shown: str = "") -> None:
        """Note a fault of the file itself."""
        self.problems.append(Problem("points", wrong, shown, self.origin(line), allowed))

    def refuse_name(self, name: str, line: int, allowed: Iterable[str]) -> None:
        """Note a column or key that has no meaning."""
        names = list(allowed)
        near = nearest(name, names)
        hint = f"; did you mean {near}?" if near else ""
        self.complain(line, f"is not a column{hint}", ", ".join(names), shown=repr(name[:60]))

    def check_names(self, names: list[str], line: int) -> bool:
        """Whether the columns or keys are all known and named once; else problems are noted."""
        known = len(self.problems)
        for name in dict.fromkeys(names):
            if name not in ALLOWED_IN_POINT:
                self.refuse_name(name, line, ALLOWED_IN_POINT)
            elif names.count(name) > 1:
                self.complain(line, f"names {name} more than once")
        return len(self.problems) == known

    def add(self, line: int, values: dict[str, Any]) -> None:
        """Take a configuration in, without the values that say "not set"."""
        given = {name: value for name, value in values.items() if value != "" and not is_nothing(value)}
        self.points.append(Point(line, given))


def find(name: str, folders: Iterable[Path]) -> Path | None:
    """The file of that name: as it is when absolute, else in the first folder that has it."""
    try:
        path = Path(name).expanduser()
        tried = [path] if path.is_absolute() else [folder / path for folder in folders]
        return next((candidate for candidate in tried if candidate.exists()), None)
    except (OSError, ValueError, RuntimeError):  # a name that the file system cannot hold, an unknown ~user
        return None


def read(path: Path, name: str) -> PointsFile:
    """Read a file of configurations. Faults are collected in the result; nothing is raised.

    Args:
        name: how messages call the file.
    """
    result = PointsFile(name)
    content = _content(path, result)
    if content is None:
        return result
    if path.suffix.lower() == ".csv":
        _read_csv(content, result)
    else:
        from treeline.request import points_yaml  # here, because only such a file needs a YAML parser

        points_yaml.read(content, result)
    if not result.points and not result.problems:
        allowed = "a header and at least one line, or a YAML list of mappings"
        result.complain(1, "holds no configuration", allowed)
    return result


def _content(path: Path, result: PointsFile) -> str | None:
    """The text of the file; None after a problem."""
    endings = f"a file that ends in {', '.join(SUFFIXES)}"
    try:
        if path.is_dir():
            result.complain(1, "is a folder", endings)
        elif path.suffix.lower() not in SUFFIXES:
            result.complain(1, f"has the ending {path.suffix!r}", endings)
        elif path.stat().st_size > LARGEST_FILE:
            result.complain(1, f"is larger than {LARGEST_FILE} bytes")
        else:
            return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        result.complain(1, f"is not UTF-8 text ({error.reason} at byte {error.start})")
    except OSError as error:
        result.complain(1, f"cannot be read: {error.strerror or error}")
    return None


def _read_csv(content: str, result: PointsFile) -> None:
    """Comment lines (#) and blank lines are passed over; a list stands in quotes or has semicolons."""
    reader = csv.reader(io.StringIO(content, newline=""), skipinitialspace=True, strict=True)
    header: list[str] | None = None
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if not any(cells) or cells[0].startswith("#"):
                continue
            if header is None:
                header = cells
                if not result.check_names(header, reader.line_num):
                    return
            elif len(cells) != len(header):
                wrong = f"has {len(cells)} values for {len(header)} columns"
                result.complain(reader.line_num, wrong, ", ".join(header))
            else:
                result.add(reader.line_num, dict(zip(header, map(_cell, header, cells), strict=True)))
    except csv.Error as error:
        result.complain(reader.line_num, f"is not CSV: {error}")


def _cell(name: str, cell: str) -> str:
    return cell.replace(";", ",") if name in CLIENT_VARIABLES else cell
