"""Compare the directives of the found unit with those of the trial: what would be measured differently.

Pure: texts in (as `systemctl cat` prints them, drop-ins after the fragment), two lists of readable lines out.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Iterator

from . import redact

SECTIONS = ("Unit", "Service")
# Repeated assignments of these add up, and an empty one clears them; of all others the last one counts.
_DEPENDENCIES = frozenset(
    (
        *(
            "After",
            "Before",
            "BindsTo",
            "Conflicts",
            "OnFailure",
            "PartOf",
            "Requires",
            "Requisite",
            "Upholds",
        ),
        *("Wants", "RequiresMountsFor", "JoinsNamespaceOf", "PropagatesStopTo"),
    )
)
_WORD_LISTS = frozenset(
    (
        *("CapabilityBoundingSet", "AmbientCapabilities", "SupplementaryGroups", "SystemCallFilter"),
        *("ReadWritePaths", "ReadOnlyPaths", "InaccessiblePaths", "ExecPaths", "NoExecPaths"),
        *(
            "BindPaths",
            "BindReadOnlyPaths",
            "TemporaryFileSystem",
            "RestrictAddressFamilies",
            "PassEnvironment",
        ),
        *("RuntimeDirectory", "StateDirectory", "CacheDirectory", "LogsDirectory", "ConfigurationDirectory"),
        *("UnsetEnvironment", "SystemCallArchitectures", "RestrictNamespaces"),
    )
)
_WHOLE_LISTS = frozenset(("DeviceAllow", "EnvironmentFile", "LoadCredential", "SetCredential"))
_EXEC_PREFIX = "Exec"


@dataclass(frozen=True)
class Difference:
    """Readable lines `[Section] Key=value` that only one of the two units has."""

    only_found: list[str]
    only_trial: list[str]


def compare(found_text: str, trial_text: str) -> Difference:
    """What only the found unit has and what only the trial has, in [Unit] and [Service]; secrets hidden."""
    found = lines(found_text)
    trial = lines(trial_text)
    return Difference(
        [line for line in found if line not in trial],
        [line for line in trial if line not in found],
    )


def lines(text: str) -> list[str]:
    """The effective directives, one fact a line: like `[Service] ExecStart: --port 30000`."""
    shown: dict[str, None] = {}
    for (section, key), values in effective(text).items():
        for value in values:
            for fact in _facts(key, value):
                shown["[%s] %s" % (section, fact)] = None
    return list(shown)


def effective(text: str) -> dict[tuple[str, str], list[str]]:
    """(section, key) -> the values in force after all assignments, drop-ins included."""
    values: dict[tuple[str, str], list[str]] = {}
    for section, key, value in assignments(text):
        if section not in SECTIONS:
            continue
        place = (section, key)
        if not value:
            values[place] = []
        elif _adds_up(key):
            values.setdefault(place, []).append(value)
        else:
            values[place] = [value]
    return {place: given for place, given in values.items() if given}


def assignments(text: str) -> Iterator[tuple[str, str, str]]:
    """(section, key, value) of every assignment; comments skipped, continued lines joined."""
    section = ""
    held = ""
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith(("#", ";")):
            continue
        line = held + line
        held = ""
        if line.endswith("\\"):
            held = line[:-1].rstrip() + " "
        elif line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
        elif "=" in line:
            key, _, value = line.partition("=")
            yield section, key.strip(), value.strip()


def _adds_up(key: str) -> bool:
    return (
        key in _DEPENDENCIES
        or key in _WORD_LISTS
        or key in _WHOLE_LISTS
        or key == "Environment"
        or key.startswith((_EXEC_PREFIX, "Condition", "Assert"))
    )


def _facts(key: str, value: str) -> Iterator[str]:
    if key.startswith(_EXEC_PREFIX):
        for piece in _flags(redact.argv(_words(value))):
            yield "%s: %s" % (key, piece)
    elif key == "Environment":
        for word in _words(value):
            yield "%s=%s" % (key, redact.assignment(word))
    elif key == "SetCredential":
        yield "%s=%s:%s" % (key, value.partition(":")[0], redact.HIDDEN)
    elif key in _DEPENDENCIES or key in _WORD_LISTS:
        for word in value.split():
            yield "%s=%s" % (key, word)
    else:
        yield "%s=%s" % (key, value)


def _words(value: str) -> list[str]:
    try:
        return shlex.split(value)
    except ValueError:
        return value.split()


def _flags(words: list[str]) -> Iterator[str]:
    """A command line in pieces that can be compared in any order: the program, then option by option."""
    piece: list[str] = []
    for word in words:
        if word.startswith("--") and piece:
            yield " ".join(piece)
            piece = []
        if word.startswith("--") and "=" in word:
            word = word.replace("=", " ", 1)
        piece.append(word)
    if piece:
        yield " ".join(piece)
