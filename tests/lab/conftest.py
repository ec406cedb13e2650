"""Labs with names of their own, removed at the end; what killed test runs left is removed at the start."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from found_host import BINDS, FoundHost
from found_scenes import ADDRESS, ALL
from treeline_lab import Lab, state

MakeLab = Callable[..., Lab]


def _remove_labs_of_dead_test_runs() -> None:
    folder = state.default_dir() / "labs"
    for path in folder.glob("test-*") if folder.is_dir() else ():
        match = re.match(r"test-(\d+)-", path.name)
        if match and not Path(f"/proc/{match[1]}").exists():
            Lab(path.name).down()


@pytest.fixture(scope="module")
def make_lab() -> Iterator[MakeLab]:
    """Makes labs named after this process and a word; the root file system is the user's cached one."""
    if os.geteuid() != 0:
        pytest.skip("lab hosts need root")
    _remove_labs_of_dead_test_runs()
    made: list[Lab] = []

    def make(word: str, state_dir: Path | None = None) -> Lab:
        made.append(Lab(f"test-{os.getpid()}-{word}", state_dir))
        return made[-1]

    yield make
    for lab in made:
        lab.down()


@pytest.fixture(scope="module")
def lab(request: pytest.FixtureRequest, make_lab: MakeLab) -> Lab:
    """A lab of the test module's own with one host for found services; a module may bring another."""
    word = request.module.__name__.removeprefix("test_").replace("_", "-")
    made = make_lab(word)
    made.up({"found1": ADDRESS}, binds=BINDS)
    return made


@pytest.fixture
def host(lab: Lab) -> FoundHost:
    """Its host, without the units of an earlier test."""
    host = FoundHost(lab, "found1")
    host.clean(ALL)
    return host
