"""`treeline compare`."""

from __future__ import annotations

from pathlib import Path

import click

from treeline.cli.common import RESULTS, find_sweep


@click.command("compare", short_help="Say what changed from one sweep to another.")
@click.argument("before")
@click.argument("after")
@RESULTS
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown, for a pull request.")
def command(before: str, after: str, results: Path, as_markdown: bool) -> None:
    """Compare two sweeps, before and after an engine upgrade, say: which cells changed, and which rates.

    Rates are compared by service lives. One life each shows no difference, however many repeats it had: give
    the finalists at least three lives in each sweep.
    """
    from treeline.frames.results import read
    from treeline.report.versus import markdown, versus
    from treeline.store import StoreError

    try:
        found = versus(read(find_sweep(before, results)), read(find_sweep(after, results)))
    except StoreError as error:
        raise click.ClickException(str(error)) from error
    if as_markdown:
        click.echo(markdown(found), nl=False)
        return
    click.echo(found.sentence)
    for line in found.provenance:
        click.echo(f"  {line}")
    for row in found.cells[found.cells["change"] != "as before"].to_dict("records"):
        click.echo(
            f"  {row['label']}: {row['state_before']} before, {row['state_after']} after: {row['change']}"
        )
    for row in found.points.to_dict("records"):
        click.echo(f"  {row['label']} at {row['concurrency']}: tok/s: {row['tok_s_verdict']}")
        click.echo(f"      AL: {row['al_verdict']}")
