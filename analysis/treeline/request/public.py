"""The public variables of a sweep: their names, what they allow, and names that look like them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from treeline.request.problems import Problem, show

CLIENT_VARIABLES = ("concurrency", "context")

# Variable -> the words after "Allowed:".
ALLOWED: dict[str, str] = {
    "budget": "a number, a comma list or a YAML list, such as budget=8,16",
    "topk": "a number, a comma list or a YAML list, such as topk=4,8",
    "maxreq": "a number, a comma list or a YAML list, such as maxreq=32,64",
    "block_size": "a number >= 2, a comma list or a YAML list, such as block_size=8",
    "graphs": "on, off, true, false, yes, no or both, such as graphs=both",
    "graph_max_bs": "a number, none, a comma list or a YAML list, such as graph_max_bs=16,none",
    "attention_backend": "a name, none, a comma list or a YAML list, such as attention_backend=triton,none",
    "concurrency": "a number, a comma list or a YAML list, such as concurrency=1,8,32",
    "context": "a number of prompt tokens, a comma list or a YAML list, such as context=1024,8192",
    "plan": "grid, points or frontier",
    "points": "the path of a .csv, .yml or .yaml file, such as points=playbooks/plans/field-notes.yml",
    "engine_dialect": "the name of a dialect or the path of a dialect file",
    "baseline": "auto or skip",
    "ready_timeout": "a number of seconds, such as ready_timeout=1800",
    "fail_on_bad": "true or false",
    "interrupt_traffic": "true or false",
    "max_trials_per_run": "a number, such as max_trials_per_run=200",
    "max_restarts": "a number, such as max_restarts=30",
    "max_hours": "a number of hours, such as max_hours=2.5",
    "use_memory": "true or false",
    "stages": "frontier, throughput and confirm, or the first or two of them, such as stages=frontier",
    "lives": "a number of service lives for each finalist, such as lives=3; 0 for none",
    "soak": "a time, such as soak=10m, 600 or 1h; 0 for none",
    "objective": "throughput, throughput@N or latency@N with N clients, such as objective=throughput@32",
}
PUBLIC = tuple(ALLOWED)

# What one configuration of a points file may say.
ALLOWED_IN_POINT: dict[str, str] = {
    **dict.fromkeys(("budget", "topk", "maxreq"), "one number"),
    "block_size": "one number >= 2",
    "graphs": "on or off",
    "graph_max_bs": "one number, or nothing",
    "attention_backend": "one name, or nothing",
    "concurrency": "a number or a list of numbers",
    "context": "a number or a list of numbers",
}

# Names that other playbooks of this repository take, so they are nobody's typing error.
OTHER_VARIABLES = ("config", "lab_state")

NEAR = 2
_TOP_LEVEL = re.compile(r"^([A-Za-z_]\w*):", re.MULTILINE)


def unknown_names(given: Iterable[str], known: Iterable[str] = ()) -> list[Problem]:
    """A problem for each name given with -e that nothing declares and that looks like a public one.

    Args:
        given: names given with -e.
        known: further declared names (role variables, inventory variables); also candidates to suggest.
    """
    declared = {*PUBLIC, *OTHER_VARIABLES, *known}
    problems = []
    for name in distinct_names(given):
        if name in declared or name.startswith(("ansible_", "_")):
            continue
        suggestion = nearest(name, declared)
        if suggestion is not None:
            problems.append(
                Problem(
                    variable=name,
                    wrong="is not a variable of Treeline",
                    origin="given with -e",
                    suggestion=suggestion,
                )
            )
    return problems


def role_variables(roles: Path) -> list[str]:
    """Names of the variables that the roles in a folder declare in their defaults, sorted.

    Only the names are needed, so the lines are looked at and not the YAML.
    """
    files = sorted(roles.glob("*/defaults/main.yml"))
    return sorted({name for file in files for name in _TOP_LEVEL.findall(file.read_text(encoding="utf-8"))})


def stray_words(words: object) -> Problem:
    """The problem of words given with -e that are no NAME=VALUE, such as the 16 of ``-e 'budget=8, 16'``."""
    return Problem(
        variable="-e",
        shown=show(words),
        wrong="is not NAME=VALUE, and a list given so must have no blanks",
        allowed="for example -e budget=8,16 or -e '{\"budget\": [8, 16]}'",
    )


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate within edit distance NEAR of a name (letter case aside), public variables first."""
    from rapidfuzz.distance import Levenshtein  # here, because only wrong names need it

    best: tuple[int, bool, str] | None = None
    for candidate in candidates:
        distance = Levenshtein.distance(name.casefold(), candidate.casefold(), score_cutoff=NEAR)
        rank = (distance, candidate not in ALLOWED, candidate)
        if distance <= NEAR and (best is None or rank < best):
            best = rank
    return best[2] if best else None


def misplaced(variables: Mapping[str, object]) -> list[Problem]:
    """A problem for each name in the variables of a request that is not a public one."""
    return [
        Problem(variable=str(name), wrong="is not a variable of a sweep", allowed=", ".join(PUBLIC))
        for name in variables
        if name not in ALLOWED
    ]


def distinct_names(names: Iterable[str]) -> list[str]:
    """Names once each, in order."""
    return list(dict.fromkeys(str(name) for name in names))
