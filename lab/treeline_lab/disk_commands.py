"""The commands of `treeline-lab` for full disks and a journal that forgets."""

from __future__ import annotations

import click

from treeline_lab import disks, requirements
from treeline_lab.errors import LabError
from treeline_lab.host import Host
from treeline_lab.lab import Lab


def _host(lab: Lab, name: str) -> Host:
    requirements.check_root()
    host = lab.host(name)
    if host.files.read() is None:
        known = ", ".join(item.name for item in lab.status()) or "none"
        raise LabError(f"lab {lab.name!r} has no host {name!r} (hosts: {known})")
    return host


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
    click.echo(f"{name}: {disks.fill(_host(lab, name), path, leave)}")


@click.command()
@click.argument("name")
@click.argument("path")
@click.pass_obj
def drain(lab: Lab, name: str, path: str) -> None:
    """Give the space at PATH of host NAME back, with what was written there meanwhile."""
    done = disks.drain(_host(lab, name), path)
    click.echo(f"{name}: {path} {'has room again' if done else 'was not full'}")


@click.command(name="forget-journal")
@click.argument("name")
@click.pass_obj
def forget_journal(lab: Lab, name: str) -> None:
    """Fault: host NAME rotates its journal and deletes what is archived."""
    click.echo(disks.forget_journal(_host(lab, name)) or f"{name}: its journal is empty")


COMMANDS = (fill, drain, forget_journal)
