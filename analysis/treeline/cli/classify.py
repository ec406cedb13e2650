"""`treeline classify`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from treeline.signatures import LogVerdict


@click.command("classify", short_help="Tell the cause of a failure from a log.")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option(
    "--alive/--dead", default=None, help="Whether the service was alive. Not given: inferred from the log."
)
@click.option("--kernel", type=click.Path(path_type=Path), help="Kernel log of the same time, if separate.")
@click.option("--catalogue", type=click.Path(path_type=Path), help="Your own failure classes (YAML).")
def command(
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
