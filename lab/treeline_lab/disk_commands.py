"""The commands of `treeline-lab` for full disks and a journal that forgets."""

from __future__ import annotations

import click

from treeline_lab import disks
from treeline_lab.lab import Lab


@click.command()
@click.argument("name")
@click.argument("path")
@click.option("--leave", default=0, show_default=True, type=click.IntRange(0), help="KiB that stay free.")
@click.pass_obj
def fill(lab: Lab, name: str, path: str, leave: int) -> None:
    """Fault: the disk at PATH of host NAME is full (/run, /var/lib/treeline, ...). `drain` gives it back.

    Nothing of this machine is filled. A power loss of the host forgets what was written below a full PATH
    that is no tmpfs: drain it first.
    """
    click.echo(f"{name}: {disks.fill(lab.existing(name)[0], path, leave)}")


@click.command()
@click.argument("name")
@click.argument("path")
@click.pass_obj
def drain(lab: Lab, name: str, path: str) -> None:
    """Give the space at PATH of host NAME back, with what was written there meanwhile."""
    done = disks.drain(lab.existing(name)[0], path)
    click.echo(f"{name}: {path} {'has room again' if done else 'was not full'}")


@click.command(name="forget-journal")
@click.argument("name")
@click.pass_obj
def forget_journal(lab: Lab, name: str) -> None:
    """Fault: host NAME rotates its journal and deletes what is archived."""
    click.echo(disks.forget_journal(lab.existing(name)[0]) or f"{name}: its journal is empty")


COMMANDS = (fill, drain, forget_journal)
