"""The command `treeline`: look at sweeps and logs without Ansible.

Only click is imported here; each command imports what it needs, so that `treeline --help` answers at once.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from treeline.signatures import LogVerdict

RESULTS = click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=Path("results"),
    show_default=True,
    envvar="TREELINE_RESULTS",
    help="Folder that holds the sweeps.",
)
SWEEP = click.argument("sweep", required=False)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="treeline", prog_name="treeline")
def main() -> None:
    """Find how far a speculative-decoding draft tree can grow on your GPUs.

    Sweeps are run with `ansible-playbook sweep.yml`; this command looks at what they left.
    SWEEP is a sweep's folder, its id, or the beginning of its id; without it the newest is taken.
    """


@main.command(short_help="Print a sweep's table and write its summary.")
@SWEEP
@RESULTS
def report(sweep: str | None, results: Path) -> None:
    """Print a sweep's table, and write its summary.csv and summary.md again.

    Works while a sweep runs, too.
    """
    from treeline.report.summary import write_summary
    from treeline.store import StoreError

    color = sys.stdout.isatty() and click.get_current_context().color is not False
    try:
        summary = write_summary(find_sweep(sweep, results), color=color, width=_width())
    except StoreError as error:
        raise click.ClickException(str(error)) from error
    click.echo(summary.table, color=color)


@main.command(short_help="Say how far a sweep is.")
@SWEEP
@RESULTS
def status(sweep: str | None, results: Path) -> None:
    """Say how far a sweep is: what is done, what runs where, and what is left."""
    from treeline.status import status_lines
    from treeline.store import StoreError

    try:
        lines = status_lines(find_sweep(sweep, results))
    except StoreError as error:
        raise click.ClickException(str(error)) from error
    click.echo("\n".join(lines))


@main.command(short_help="Tell the cause of a failure from a log.")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option(
    "--alive/--dead", default=None, help="Whether the service was alive. Not given: inferred from the log."
)
@click.option("--kernel", type=click.Path(path_type=Path), help="Kernel log of the same time, if separate.")
@click.option("--catalogue", type=click.Path(path_type=Path), help="Your own failure classes (YAML).")
def classify(
    file: Path, as_json: bool, alive: bool | None, kernel: Path | None, catalogue: Path | None
) -> None:
    """Tell the first cause of a failure from the log in FILE (- for standard input).

    FILE holds `journalctl -o json` or `-o short-iso` output of the unit, or plain text; it may be gzipped.
    Only the last service life in it counts.
    """
    from treeline.signatures import classify_journal
    from treeline.signatures.catalogue import CatalogueError

    try:
        source = sys.stdin.buffer.read().split(b"\n") if str(file) == "-" else file
        verdict = classify_journal(source, alive=alive, kernel=kernel, catalogue=catalogue)
    except CatalogueError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{error.filename or file}: {error.strerror or error}") from error
    if not verdict.lines:
        name = "standard input" if str(file) == "-" else file
        raise click.ClickException(f"{name}: no line of a log in it; it is empty, or damaged gzip data")
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(verdict))
    else:
        click.echo("\n".join(describe(verdict)))


def describe(verdict: LogVerdict) -> list[str]:
    """Return a verdict as lines for people; what is not known is left out."""
    known = [
        ("class", f"{verdict.class_} (confidence {verdict.confidence})"),
        ("kind", verdict.kind),
        ("phase", verdict.phase),
        ("first error", verdict.first_error),
        ("line", verdict.first_error_line_no),
        ("rank", verdict.rank),
        ("captured batch size", verdict.captured_bs),
        ("captured width", verdict.captured_width),
        ("also seen", ", ".join(verdict.secondary)),
        ("reached phase", verdict.reached_phase if verdict.reached_phase != verdict.phase else None),
        ("decode lines", _acceptance(verdict)),
        ("lost lines", verdict.lost_lines or None),
        ("try", verdict.advice),
        ("reports", ", ".join(verdict.references)),
    ]
    return [f"{name + ':':21}{value}" for name, value in known if value not in (None, "")]


def _acceptance(verdict: LogVerdict) -> str | None:
    if not verdict.accept_lens:
        return None
    from statistics import median

    lens = verdict.accept_lens
    spread = f"{min(lens):.2f} .. {max(lens):.2f}, median {median(lens):.2f}"
    return f"{len(lens)} with an acceptance length: {spread}"


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


def _width() -> int | None:
    """Return the terminal's columns; None where the output is no terminal."""
    import shutil

    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


if __name__ == "__main__":
    main()
