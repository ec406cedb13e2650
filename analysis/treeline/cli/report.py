"""`treeline report`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from treeline.cli.common import RESULTS, find_sweep, terminal_width
from treeline.report.apart import PAGE


@click.command("report", short_help="Print a sweep's table, write its summary and its report.")
@click.argument("sweeps", metavar="[SWEEP]...", nargs=-1)
@RESULTS
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="Where to write the report. Default: report.html in the sweep's folder; of several sweeps together, "
    "in the folder of results.",
)
@click.option("--table-only", is_flag=True, help="Draw no report.html: it takes some seconds.")
@click.option("--notebooks", is_flag=True, help="Leave the executed notebooks beside the report, too.")
def command(
    sweeps: tuple[str, ...], results: Path, output: Path | None, table_only: bool, notebooks: bool
) -> None:
    """Print each sweep's table, write its summary.csv and summary.md again, and draw report.html.

    Works while a sweep runs, too. Several sweeps (of several hosts, say) become one report:

    \b
      treeline report                       the newest sweep
      treeline report 20260301 20260302     two sweeps in one report
      treeline report --output /tmp/r.html  somewhere else

    The report is one file with plots and tables; it needs no network and can be sent as it is.
    """
    from treeline.report.summary import write_summary
    from treeline.store import StoreError

    color = sys.stdout.isatty() and click.get_current_context().color is not False
    folders = [find_sweep(sweep, results) for sweep in sweeps] or [find_sweep(None, results)]
    try:
        for folder in folders:
            click.echo(write_summary(folder, color=color, width=terminal_width()).table, color=color)
        if not table_only:
            from treeline.report.page import write_page

            target = output or (folders[0] if len(folders) == 1 else results) / PAGE
            click.echo(str(write_page(folders, target)))
        if notebooks:
            from treeline.report.notebooks import execute_all

            beside = (output.parent if output else folders[0] if len(folders) == 1 else results) / "notebooks"
            for path in execute_all(folders[0] if len(folders) == 1 else results, beside):
                click.echo(str(path))
    except (StoreError, OSError) as error:
        raise click.ClickException(str(error)) from error
