"""Every class by example: lines of other versions that show it, and lines that only look like it.

The lines are in `tests/data/signatures/examples.yml`, with where their wording comes from.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from logs import ARGS, DIED, LOADED, SERVING, STARTED, decode, entry, kernel, systemd, text
from treeline.signatures import LogVerdict, classify_journal, classify_text
from treeline.signatures.catalogue import TIERS, load_catalogue

DATA = Path(__file__).resolve().parents[2] / "data" / "signatures" / "examples.yml"
GROUPS: list[dict[str, Any]] = yaml.safe_load(DATA.read_text(encoding="utf-8"))
OUTSIDE = ("kernel: ", "systemd: ")


def lines_of(example: dict[str, Any]) -> list[str]:
    return list(example["lines"]) if "lines" in example else [example["line"]]


def cases(kind: str) -> list[Any]:
    return [
        pytest.param(group["class"], example, id=f"{group['class']}-{number}")
        for group in GROUPS
        for number, example in enumerate(group[kind])
    ]


def shown(verdict: LogVerdict, class_: str) -> bool:
    """Tell whether a verdict names a class; classes that are never a cause can only stand beside it."""
    tier = load_catalogue().by_id(class_).tier
    return verdict.class_ == class_ if tier in (*TIERS, "derived") else class_ in verdict.secondary


def in_text(example: dict[str, Any]) -> LogVerdict:
    """Return the verdict on an example in a short journal: of a service that died, or that runs."""
    alive = example.get("alive", False)
    before = [f"systemd: {STARTED}", ARGS, *(LOADED if alive else ()), *(SERVING if alive else ())]
    after = [] if alive else [f"systemd: {message}" for message in DIED]
    return classify_journal(text(*before, *lines_of(example), *after), alive=alive)


def in_json(example: dict[str, Any]) -> LogVerdict:
    """Return the verdict on an example as journald exports it, from a process that has a rank."""
    alive = example.get("alive", False)
    lines = [systemd(STARTED), entry(ARGS)]
    if alive:
        lines += [entry(line, at=2) for line in (*LOADED, *SERVING)]
    for line in lines_of(example):
        if line.startswith("kernel: "):
            lines.append(kernel(line.removeprefix("kernel: "), at=3))
        elif line.startswith("systemd: "):
            lines.append(systemd(line.removeprefix("systemd: "), at=3))
        else:
            lines.append(entry(line, at=3))
    if not alive:
        lines += [systemd(message, at=4) for message in DIED]
    return classify_journal(lines, alive=alive)


@pytest.mark.parametrize(("class_", "example"), cases("positive"))
def test_a_line_that_shows_the_class(class_: str, example: dict[str, Any]) -> None:
    for verdict in (in_text(example), in_json(example)):
        assert shown(verdict, class_), (verdict.class_, verdict.secondary)
    alone = lines_of(example)
    if not example.get("alive") and not alone[0].startswith(OUTSIDE):
        bare = classify_text("\n".join(alone))
        assert shown(bare, class_), (bare.class_, bare.secondary)


@pytest.mark.parametrize(("class_", "example"), cases("near_miss"))
def test_a_line_that_only_looks_like_the_class(class_: str, example: dict[str, Any]) -> None:
    alive = example.get("alive", False)
    middle = [] if alive else [*LOADED, *SERVING]
    after = [] if alive else [decode(4.5), *(f"systemd: {message}" for message in DIED)]
    start = [f"systemd: {STARTED}", ARGS, *(LOADED if alive else ()), *(SERVING if alive else ())]
    verdict = classify_journal(text(*start, *middle, *lines_of(example), *after), alive=alive)
    for seen in (verdict, in_text(example), in_json(example)):
        assert seen.class_ != class_, seen.first_error
        assert class_ not in seen.secondary


def test_every_class_has_an_example_and_a_near_miss() -> None:
    known = [signature.id for signature in load_catalogue().signatures]
    assert sorted(group["class"] for group in GROUPS) == sorted(known)
    assert [group["class"] for group in GROUPS if not group["positive"] or not group["near_miss"]] == []


def test_every_example_says_where_it_comes_from() -> None:
    silent = [
        example
        for group in GROUPS
        for kind, word in (("positive", "from"), ("near_miss", "why"))
        for example in group[kind]
        if not example.get(word)
    ]
    assert silent == []


def test_a_known_failure_of_one_rank_beats_the_noise_of_the_others() -> None:
    """Any specific error wins over what the other processes say when the one has gone."""
    noise = [
        "ncclRemoteError: A call failed possibly due to a network error",
        "[2026-03-04 10:00:07] Received sigquit from a child process. It usually means the child failed.",
        "[2026-03-04 10:00:07 TP3] Watchdog timeout (self.watchdog_timeout=300)",
    ]
    catalogue = load_catalogue()
    for group in GROUPS:
        if catalogue.by_id(group["class"]).tier != "application":
            continue
        line = lines_of(group["positive"][0])[0]
        journal = text(f"systemd: {STARTED}", ARGS, *noise, line, *(f"systemd: {end}" for end in DIED))
        assert classify_journal(journal, alive=False).class_ == group["class"], line
