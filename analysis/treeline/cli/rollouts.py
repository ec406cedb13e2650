"""`treeline rollouts`."""

from __future__ import annotations

from pathlib import Path

import click

from treeline.cli.common import RESULTS, by_beginning


@click.command("rollouts", short_help="List rollouts, or show one.")
@click.argument("rollout", required=False)
@RESULTS
def command(rollout: str | None, results: Path) -> None:
    """List rollouts, the newest first; with the id of one (or its beginning), show it host by host.

    A rollout says what each hardware class was given, from which trial and why, in which waves, and how each
    host was left.
    """
    from treeline.rollout.records import rollout_folders
    from treeline.rollout.view import listing, story
    from treeline.store import StoreError

    folders = rollout_folders(results)
    if not folders:
        raise click.ClickException(f"no rollout in {results}; give --results DIR, or roll out first")
    try:
        if rollout is None:
            click.echo("\n".join(listing(folders)))
            return
        chosen = by_beginning(folders, rollout, results, kind="rollouts", none="no rollout's id begins so")
        click.echo("\n".join(story(chosen)))
    except StoreError as error:
        raise click.ClickException(str(error)) from error
