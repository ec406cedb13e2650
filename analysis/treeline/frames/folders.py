"""Which sweep folders are meant by some paths."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from treeline.store import SWEEP, sweep_folders


def find(paths: Iterable[Path]) -> list[Path]:
    """Return the sweep folders that are named or lie directly below a named folder, the oldest first.

    A folder that is named twice, or by two ways, is returned once. Paths that are no folder hold none.
    """
    found: dict[Path, Path] = {}
    for path in paths:
        for folder in [path] if (path / SWEEP).is_file() else sweep_folders(path):
            found.setdefault(folder.resolve(), folder)
    return sorted(found.values(), key=lambda folder: folder.name)
