"""Labs with names of their own, removed at the end; what killed test runs left is removed at the start."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
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
