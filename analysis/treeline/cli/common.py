"""What several commands share: the options that name a sweep, and the terminal."""

from __future__ import annotations

import shutil
import sys
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
    matching = [folder for folder in folders if folder.name.startswith(sweep)]
    if len(matching) == 1:
        return matching[0]
    there = ", ".join(folder.name for folder in (matching or folders)[:5])
    problem = f"{len(matching)} sweeps begin so" if matching else "neither a sweep's folder nor a sweep's id"
    raise click.ClickException(f"{sweep}: {problem}. In {results}: {there}")


def terminal_width() -> int | None:
    """Return the terminal's columns; None where the output is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
