"""What several commands share: the options that name a sweep, and the terminal."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import click

RESULTS = click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=Path("results"),
    show_default=True,
    envvar="TREELINE_RESULTS",
    help="Folder that holds the sweeps.",
)
SWEEP = click.argument("sweep", required=False)


def find_sweep(sweep: str | None, results: Path) -> Path:
    """Return the folder of a sweep given as path, id or beginning of an id; of the newest for None.

    Raises click.ClickException naming what was looked for, where, and what is there.
    """
    from treeline.store import SWEEP as SWEEP_FILE
    from treeline.store import sweep_folders

    if sweep and (Path(sweep) / SWEEP_FILE).is_file():
        return Path(sweep)
    folders = sweep_folders(results)
    if not folders:
        where = f"no sweep was found in {results}" if results.is_dir() else f"there is no folder {results}"
        raise click.ClickException(f"{where}; run from the repository's root, or give --results DIR")
    if not sweep:
        return folders[0]
    return by_beginning(
        folders, sweep, results, kind="sweeps", none="neither a sweep's folder nor a sweep's id"
    )


def by_beginning(folders: Sequence[Path], beginning: str, results: Path, *, kind: str, none: str) -> Path:
    """Return the one of several folders whose name begins so.

    results: where they lie. kind: what they are, in the plural. none: what to say where no name begins so.
    Raises click.ClickException naming what was looked for, where, and what is there.
    """
    matching = [folder for folder in folders if folder.name.startswith(beginning)]
    if len(matching) == 1:
        return matching[0]
    there = ", ".join(folder.name for folder in (matching or folders)[:5])
    problem = f"{len(matching)} {kind} begin so" if matching else none
    raise click.ClickException(f"{beginning}: {problem}. In {results}: {there}")


def terminal_width() -> int | None:
    """Return the terminal's columns; None where the output is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
