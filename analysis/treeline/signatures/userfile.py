"""Check a catalogue file of a user's: what is wrong with it, or doubtful, and on which line."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from treeline.signatures.catalogue import Catalogue, File, Place, Signature, problems
from treeline.signatures.entries import Entry
from treeline.signatures.match import Matcher

_AT = re.compile(r"at `\$((?:\.\w+|\[\d+\]|\[\.\.\.\])*)`")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")
_SHORT = 6  # a shorter string that nothing narrows down hits too much
_SLOW_S = 0.05
_SIZES = (12, 16, 20, 24, 200, 1000, 4000)
# On such lines an expression that backtracks without bound takes its time.
_TRYING = ("a", " ", "0", "-a", "a.b/", "Error: a ", "RuntimeError: x=1, ")


class Problem(NamedTuple):
    """What is wrong, or doubtful, and on which line of the file."""

    line: int
    text: str


class Checked(NamedTuple):
    """What a user's file holds, and what is wrong or doubtful about it."""

    signatures: list[Signature]
    lines: dict[str, int]
    """Class id -> the line on which it begins."""
    problems: list[Problem]
    """Empty for a file that can be used."""
    warnings: list[Problem]


def check(path: Path, never_evidence: Sequence[str]) -> Checked:
    """Check a user's catalogue file.

    never_evidence: text of the built-in catalogue that is never evidence.
    Raises OSError when the file cannot be read.
    """
    import yaml

    content = path.read_bytes()
    try:
        node = yaml.compose(content, Loader=yaml.SafeLoader)
        parsed = msgspec.convert(yaml.safe_load(content), type=File)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        text = f"not valid YAML: {error.problem or error.context}"
        return _broken(Problem(mark.line + 1 if mark else 1, text))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        return _broken(Problem(1, f"not valid YAML: {error}"))
    except msgspec.ValidationError as error:
        found = _AT.search(str(error))
        steps = [name or int(index) for name, index in _STEP.findall(found[1])] if found else []
        return _broken(Problem(_line(node, steps), str(error)))
    wrong = [Problem(_line(node, place), text) for place, text in problems(parsed)]
    wrong = wrong or [
        Problem(_line(node, ("classes", at, *place)), f"class '{signature.id}': {text}")
        for at, signature in enumerate(parsed.classes)
        for place, text in _contradictions(signature, parsed.never_evidence)
    ]
    if wrong:
        return _broken(*wrong)
    lines = {signature.id: _line(node, ("classes", at)) for at, signature in enumerate(parsed.classes)}
    doubts = [
        Problem(_line(node, ("classes", at, *place)), f"class '{signature.id}': {text}")
        for at, signature in enumerate(parsed.classes)
        for place, text in _doubts(signature, [*never_evidence, *parsed.never_evidence])
    ]
    return Checked(parsed.classes, lines, [], doubts)


def _broken(*wrong: Problem) -> Checked:
    return Checked([], {}, list(wrong), [])


def _contradictions(signature: Signature, never: Sequence[str]) -> Iterator[tuple[Place, str]]:
    """Yield where a class does not do what its own examples say."""
    matcher = Matcher(Catalogue([signature], list(never), []))

    def shows(text: str) -> bool:
        outside = signature.source == "any"
        return any(True for _ in matcher.matches(Entry(0, text, None, None, outside, None), [signature]))

    for at, text in enumerate(signature.examples):
        if not shows(text):
            yield ("examples", at), f"the example does not show the class: {text}"
    for at, text in enumerate(signature.near_misses):
        if shows(text):
            yield ("near_misses", at), f"the near miss shows the class: {text}"


def _doubts(signature: Signature, never: Sequence[str]) -> Iterator[tuple[Place, str]]:
    patterns = [re.compile(pattern) for pattern in signature.regex]
    for text in never:
        holds = any(literal in text for literal in signature.literals)
        if holds and (not patterns or any(pattern.search(text) for pattern in patterns)):
            yield (), f"it matches '{text}', which is never evidence; such lines are left out"
    for at, literal in enumerate(signature.literals):
        if len(literal) < _SHORT and not patterns:
            yield ("literals", at), f"'{literal}' is short, and no regular expression narrows it down"
    for at, pattern in enumerate(patterns):
        slowest = max(_seconds(pattern, piece) for piece in _TRYING)
        if slowest > _SLOW_S:
            yield (
                ("regex", at),
                f"'{pattern.pattern}' is slow ({slowest:.2f} s for one long line); avoid repeats inside "
                "repeats and several .*, or say how many: .{0,200}",
            )


def _seconds(pattern: re.Pattern[str], piece: str) -> float:
    """Return how long an expression takes for a line; longer ones are tried only while it is quick."""
    taken = 0.0
    for size in _SIZES:
        line = (piece * size)[:size] + "!"
        begun = time.perf_counter()
        pattern.search(line)
        taken = time.perf_counter() - begun
        if taken > _SLOW_S:
            break
    return taken


def _line(node: Any, place: Sequence[str | int]) -> int:
    """Return the line on which a value of a YAML document begins, or the nearest value around it."""
    import yaml

    for step in place:
        inner = None
        if isinstance(node, yaml.MappingNode):
            inner = next((value for key, value in node.value if key.value == step), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            inner = node.value[step]
        if inner is None:
            break
        node = inner
    return int(node.start_mark.line) + 1 if node is not None else 1
