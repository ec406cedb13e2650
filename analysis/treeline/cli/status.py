"""`treeline status`."""

from __future__ import annotations

from pathlib import Path

import click

from treeline.cli.common import RESULTS, SWEEP, find_sweep


@click.command("status", short_help="Say how far a sweep is.")
@SWEEP
@RESULTS
def command(sweep: str | None, results: Path) -> None:
    """Say how far a sweep is: what is done, what runs where, and what is left."""
    from treeline.status import status_lines
    from treeline.store import StoreError

    try:
        lines = status_lines(find_sweep(sweep, results))
    except StoreError as error:
        raise click.ClickException(str(error)) from error
    click.echo("\n".join(lines))
