"""Where configurations and dialect of a request come from: -e, a points file, the inventory, defaults."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from treeline import dialects
from treeline.dialects import Dialect, DialectError
from treeline.keys import PlanKind
from treeline.request import points as points_files
from treeline.request import values
from treeline.request.points import PointsFile
from treeline.request.problems import Problem
from treeline.request.reader import Baseline, Reader, baseline_word

DEFAULT_DIALECT = "field"


def plan_kind(reader: Reader) -> PlanKind | None:
    """The kind of plan, or None after a problem."""
    has_points = "points" in reader.variables
    if "plan" not in reader.variables:
        return "points" if has_points else "grid"
    word = reader.read("plan", lambda value: values.word(value, ("grid", "points", "frontier")))
    if word == "points" and not has_points:
        reader.complain("points", "is not given, and plan=points reads its configurations from there")
    elif word in ("grid", "frontier") and has_points:
        wrong = f"is given, but plan={word} crosses budget, topk, maxreq and the other lists"
        reader.complain("points", wrong)
    elif word == "grid":
        return "grid"
    elif word == "frontier":
        return "frontier"
    elif word == "points":
        return "points"
    return None


def points_file(reader: Reader, folders: Sequence[Path]) -> PointsFile | None:
    """The points file that was named, read; None after a problem with its name."""
    name = reader.read("points", values.text)
    if name is None:
        return None
    path = points_files.find(name, folders)
    if path is None:
        looked = ", ".join(str(folder) for folder in folders)
        reader.complain("points", f"does not exist{f' in {looked}' if looked else ''}")
        return None
    result = points_files.read(path, name)
    reader.problems += result.problems
    return result


def dialect(reader: Reader, points: PointsFile | None, folders: Sequence[Path]) -> tuple[str, Dialect | None]:
    """Name (or absolute path) and content of the dialect; -e outranks the points file, that the inventory."""
    name: str | None = reader.read("engine_dialect", values.text)
    origin = reader.origin("engine_dialect") if "engine_dialect" in reader.variables else ""
    if "engine_dialect" in reader.variables and name is None:
        return "", None
    if points is not None and "engine_dialect" in points.settings and not reader.forced("engine_dialect"):
        origin = points.name
        given = points.settings["engine_dialect"]
        name = reader.judge("engine_dialect", given, values.text, origin, "the name of a dialect")
        if name is None:
            return "", None
    name = name or DEFAULT_DIALECT
    try:
        if dialects.is_path(name):
            name = str((points_files.find(name, folders) or Path(name)).expanduser().absolute())
        return name, dialects.load(name)
    except (DialectError, OSError, RuntimeError, ValueError) as error:
        reader.problems.append(Problem("engine_dialect", str(error), origin=origin))
        return name, None


def baseline(reader: Reader, points: PointsFile | None) -> Baseline | None:
    """The baseline that was given: with -e, else in the points file, else in the inventory."""
    given = reader.read("baseline", baseline_word)
    if points is None or "baseline" not in points.settings or reader.forced("baseline"):
        return given
    return reader.judge("baseline", points.settings["baseline"], baseline_word, points.name, "auto or skip")
