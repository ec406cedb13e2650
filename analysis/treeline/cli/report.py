"""`treeline report`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from treeline.cli.common import RESULTS, SWEEP, find_sweep, terminal_width


@click.command("report", short_help="Print a sweep's table and write its summary.")
@SWEEP
@RESULTS
def command(sweep: str | None, results: Path) -> None:
    """Print a sweep's table, and write its summary.csv and summary.md again.

    Works while a sweep runs, too.
    """
    from treeline.report.summary import write_summary
    from treeline.store import StoreError

    color = sys.stdout.isatty() and click.get_current_context().color is not False
    try:
        summary = write_summary(find_sweep(sweep, results), color=color, width=terminal_width())
    except StoreError as error:
        raise click.ClickException(str(error)) from error
    click.echo(summary.table, color=color)
