"""Four lab hosts of one class against one of them: wall time, and nothing is done twice.

The engine's start takes TREELINE_LONG_START_S seconds (20), so that a sweep mostly waits, as it does with
GPUs: four hosts of this lab share the cores that one has for itself. Wall time is that of the command, from
its start to its end.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from harness import Target, number
from labs import deployed
from treeline.records import seconds_between

HOSTS = {f"many{place}": f"10.66.0.{100 + place}" for place in range(1, 5)}
ONE = "many1"
FIELD_START_S = 360
SLICES = (2, 4, 6, 8)
# Budget 12 dies of its rows at 128 requests and works below: a border, a corner to confirm, cells to audit.
FRONTIER = {"plan": "frontier", "stages": "frontier", "budget": "8,12", "maxreq": "32,64,128"}
GRID = {"budget": "8,12", "maxreq": "64,128", "topk": ",".join(map(str, SLICES))}
SHARE = 0.4
LONG = 1500

pytestmark = [pytest.mark.long, pytest.mark.timeout(2400)]


@dataclass(frozen=True)
class Swept:
    """A sweep: how long the command took, and the lines of its trials in order."""

    seconds: float
    lines: list[dict[str, Any]]

    @property
    def finished(self) -> list[dict[str, Any]]:
        """The verdicts."""
        return [line for line in self.lines if line["event"] == "finished"]

    def of_slice(self, topk: int) -> Swept:
        """The trials of one slice alone."""
        return Swept(self.seconds, [line for line in self.lines if line["key"]["topk"] == topk])

    def begun_twice(self) -> list[str]:
        """Items that were begun while they were under way, or after they were settled."""
        taken: set[str] = set()
        found = []
        for line in self.lines:
            item = line["item_id"]
            if line["event"] == "started":
                found += [item] if item in taken else []
                taken.add(item)
            elif line["effect"] in ("back", "void"):
                taken.discard(item)
        return found

    def verdicts(self) -> dict[str, set[tuple[str, str]]]:
        """What was said of each cell, as status and class; trials that went back said nothing."""
        found: dict[str, set[tuple[str, str]]] = {}
        for line in self.finished:
            if line["effect"] not in ("back", "void"):
                found.setdefault(line["cell"], set()).add((line["status"], line["class"]))
        return found

    def hosts(self) -> Counter[str]:
        """Trials by host."""
        return Counter(line["host"] for line in self.finished)

    def span_s(self) -> float:
        """From the first claim to the last verdict."""
        return seconds_between(self.lines[0]["at"], self.lines[-1]["at"])

    def busy_s(self) -> float:
        """From claim to verdict, summed over the trials."""
        begun = {line["trial_id"]: line["at"] for line in self.lines if line["event"] == "started"}
        return sum(seconds_between(begun[line["trial_id"]], line["at"]) for line in self.finished)


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """Four hosts of one class."""
    with deployed("many", HOSTS, tmp_path_factory.mktemp("many")) as target:
        yield target


@pytest.fixture(scope="module")
def one(four: Target, tmp_path_factory: pytest.TempPathFactory) -> Target:
    """The first of them alone."""
    folder = tmp_path_factory.mktemp("one")
    inventory = four.lab.write_inventory(folder / "hosts.yml", {ONE: HOSTS[ONE]})
    return Target(four.lab, inventory, (ONE,), folder)


def swept(target: Target, results: Path, **asked: Any) -> Swept:
    """Sweep with a start-up that is waited for and a load that is short."""
    there = Target(target.lab, target.inventory, target.hosts, results)
    began = time.monotonic()
    scale = number("TREELINE_LONG_START_S", 20) / FIELD_START_S
    there.run(
        "sweep.yml",
        timeout=LONG,
        sglang_ddtree_extra_args={"fault-profile": "b300-kimi-k26", "time-scale": scale},
        ready_timeout=120,
        concurrency=1,
        treeline_max_tokens=16,
        treeline_canaries_single=2,
        **asked,
    )
    return Swept(time.monotonic() - began, there.lines())


def compare(say: Any, what: str, alone: Swept, together: Swept) -> None:
    """Print both; fail where something was done twice, came out otherwise, or took too long."""
    share = together.seconds / alone.seconds
    waited = sum(line["times"]["waited_s"] or 0 for line in alone.finished) / alone.seconds
    with say.disabled():
        print(
            f"\n{what}: {len(alone.finished)} trials in {alone.seconds:.0f} s on one host, "
            f"{len(together.finished)} in {together.seconds:.0f} s on four {dict(together.hosts())}: "
            f"{share:.3f} of the time; one host waited {waited:.0%} of it for the engine to start"
        )
    assert set(together.hosts()) == set(HOSTS)
    as_one_host_found(alone, together)
    assert share <= SHARE


def as_one_host_found(alone: Swept, together: Swept) -> None:
    """Nothing was begun twice, and cells that both measured came out alike."""
    assert alone.begun_twice() == together.begun_twice() == []
    one, other = alone.verdicts(), together.verdicts()
    shared = one.keys() & other.keys()
    assert shared
    assert {cell: one[cell] for cell in shared} == {cell: other[cell] for cell in shared}


def test_a_grid(one: Target, four: Target, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alone = swept(one, tmp_path / "one", **GRID)
    together = swept(four, tmp_path / "four", **GRID)
    assert alone.verdicts().keys() == together.verdicts().keys()
    compare(capsys, "grid", alone, together)


def test_a_frontier(one: Target, four: Target, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slices = ",".join(map(str, SLICES))
    alone = swept(one, tmp_path / "one", topk=slices, **FRONTIER)
    # One slice on four hosts; on one host it is the first of the four, which knows of no other.
    single = swept(four, tmp_path / "slice", topk=SLICES[0], **FRONTIER)
    first = alone.of_slice(SLICES[0])
    with capsys.disabled():
        print(
            f"\none slice on four hosts: {len(single.finished)} restarts, "
            f"{len(single.finished) - len(first.finished)} more than on one host; "
            f"{single.span_s():.0f} s from the first claim to the last verdict, on one host "
            f"{first.busy_s():.0f} s; the command took {single.seconds:.0f} s {dict(single.hosts())}"
        )
    as_one_host_found(first, single)
    together = swept(four, tmp_path / "four", topk=slices, **FRONTIER)
    compare(capsys, "frontier of four slices", alone, together)
