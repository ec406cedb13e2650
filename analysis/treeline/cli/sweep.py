"""`treeline sweep`."""

from __future__ import annotations

import sys

import click

_ASKING = ("-K", "--ask-become-pass", "-k", "--ask-pass", "-J", "--ask-vault-pass", "--ask-vault-password")


@click.command(
    "sweep",
    short_help="Run a sweep and watch it.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("options", metavar="[OPTION OF ansible-playbook]...", nargs=-1, type=click.UNPROCESSED)
def command(options: tuple[str, ...]) -> None:
    """Run sweep.yml and show its progress: what is done, what runs, the map as it fills, and the time left.

    Takes the options of ansible-playbook, and does what `ansible-playbook sweep.yml` does with them:

    \b
      treeline sweep -e budget=32
      treeline sweep -i inventory/my_fleet --limit b300-1 -e budget=8,16 -e maxreq=64,128

    Ctrl-C stops the sweep and restores the services that ran before; the same command goes on with it later.
    Where the output is no terminal there are plain lines instead of a view.
    """
    asking = sorted(set(options) & set(_ASKING))
    if asking:
        raise click.UsageError(
            f"{', '.join(asking)}: nothing can be asked for while the view is drawn. Use a password file "
            "(--vault-password-file, --become-password-file), or ansible-playbook sweep.yml itself"
        )
    from rich.console import Console

    from treeline.live.watch import run_sweep
    from treeline.report.summary import write_summary
    from treeline.store import StoreError

    console = Console(highlight=False)
    code, folder = run_sweep(options, console)
    if folder is not None and console.is_terminal:
        try:
            click.echo(write_summary(folder, color=True, width=console.width).table, color=True)
        except StoreError as error:
            click.echo(str(error), err=True)
    sys.exit(code)
