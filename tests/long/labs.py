"""Lab hosts for a long test, deployed to and taken down again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from harness import Target
from treeline_lab.lab import Lab


@contextmanager
def deployed(word: str, hosts: Mapping[str, str], folder: Path) -> Iterator[Target]:
    """Boot hosts (name -> address) with the engine and the inventory's service; they are gone afterwards."""
    lab = Lab(f"test-{os.getpid()}-{word}")
    lab.down()
    try:
        lab.up(hosts)
        inventory = lab.write_inventory(folder / "hosts.yml", hosts)
        target = Target(lab, inventory, tuple(hosts), folder / "deploy")
        target.run("deploy.yml", timeout=600)
        yield target
    finally:
        lab.down()
