"""`treeline status`."""

from __future__ import annotations

from pathlib import Path

import click

from treeline.cli.common import RESULTS, SWEEP, find_sweep


@click.command("status", short_help="Say how far a sweep is.")
@SWEEP
@RESULTS
@click.option(
    "--watch", is_flag=True, help="Go on showing it until it ends. Ctrl-C ends the view, not the sweep."
)
def command(sweep: str | None, results: Path, watch: bool) -> None:
    """Say how far a sweep is: what is done, what runs where, and what is left."""
    from treeline.status import status_lines
    from treeline.store import StoreError

    folder = find_sweep(sweep, results)
    try:
        if not watch:
            click.echo("\n".join(status_lines(folder)))
            return
        from rich.console import Console

        from treeline.live.watch import watch as show

        show(folder, Console(highlight=False))
    except StoreError as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        click.echo()
