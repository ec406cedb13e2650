"""The command `treeline-lab`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from treeline_lab import (
    disk_commands,
    fault_commands,
    inventory,
    network,
    requirements,
    rootfs,
    router,
    state,
)
from treeline_lab.errors import LabError
from treeline_lab.lab import UP_TIMEOUT_S, Lab, UpResult


class _Group(click.Group):
    """Says what went wrong in plain words, without a traceback."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except LabError as error:
            click.echo(f"treeline-lab: {error}", err=True)
        except BrokenPipeError:
            raise  # the reader of our output went away; click ends quietly
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            click.echo(f"treeline-lab: {where}{error.strerror or error}", err=True)
        sys.exit(1)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option(
    "--name", default="default", show_default=True, help="Name of the lab; several run side by side."
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="State directory: root file systems and labs.  [default: treeline in the user's cache directory]",
)
@click.pass_context
def main(ctx: click.Context, name: str, directory: Path | None) -> None:
    """Real systemd hosts on this machine, under systemd-nspawn, for Ansible to work on. Needs root."""
    ctx.obj = Lab(name, directory or state.default_dir(), click.echo)


def _wanted(hosts: tuple[str, ...], path: Path | None) -> dict[str, str]:
    if hosts and path:
        raise LabError("give either --host or --inventory, not both")
    if not hosts:
        return inventory.read_hosts(path or inventory.lab_inventory())
    wanted = {}
    for text in hosts:
        name, sep, address = text.partition("=")
        if not sep:
            raise LabError(f"--host: {text!r} is not NAME=ADDRESS, such as lab1=10.66.0.11")
        wanted[name] = address
    return wanted


def _say_degraded(degraded: Mapping[str, list[str]]) -> None:
    for name, units in sorted(degraded.items()):
        click.echo(f"{name} is up, but degraded; failed units: {', '.join(units)}")


def _say_up(lab: Lab, result: UpResult) -> None:
    said = (
        (result.created, "created and booted"),
        (result.booted, "booted again with its disk"),
        (result.plugged_in, "network cable plugged in again"),
        (result.unchanged, "running already, unchanged"),
    )
    for names, what in said:
        for name in names:
            click.echo(f"{name}: {what}")
    _say_degraded(result.degraded)
    click.echo(f"lab {lab.name!r} is up")


@main.command()
@click.option("--host", "hosts", multiple=True, metavar="NAME=ADDRESS", help="A host to boot; repeat it.")
@click.option(
    "--inventory",
    "path",
    type=click.Path(path_type=Path),
    help="Boot the hosts of this inventory's group `sglang`.  [default: inventory/lab]",
)
@click.option(
    "--bind", "binds", multiple=True, metavar="SRC[:DST]", help="Read-only bind for new hosts; repeat it."
)
@click.option("--timeout", default=UP_TIMEOUT_S, show_default=True, help="Seconds to wait for the hosts.")
@click.pass_obj
def up(lab: Lab, hosts: tuple[str, ...], path: Path | None, binds: tuple[str, ...], timeout: float) -> None:
    """Boot hosts and wait until they are up. Changes nothing where they run already."""
    requirements.check()
    _say_up(lab, lab.up(_wanted(hosts, path), binds, timeout))


@main.command()
@click.argument("names", nargs=-1)
@click.pass_obj
def down(lab: Lab, names: tuple[str, ...]) -> None:
    """Remove the lab (or the NAMED hosts) with their disks. The root file system stays cached."""
    gone = lab.down(names)
    click.echo(f"removed: {', '.join(gone)}" if gone else f"nothing to remove in lab {lab.name!r}")


@main.command()
@click.pass_obj
def status(lab: Lab) -> None:
    """Show the hosts of the lab; exit status 3 unless all are running."""
    found = lab.status()
    for item in found:
        click.echo(f"{item.name}\t{item.address or '-'}\t{item.state}")
    if not found:
        click.echo(f"lab {lab.name!r} is not up (directory {lab.files.root})")
    if not found or any(item.state != "running" for item in found):
        sys.exit(3)


@main.command()
@click.option("--timeout", default=UP_TIMEOUT_S, show_default=True, help="Seconds to wait.")
@click.pass_obj
def wait(lab: Lab, timeout: float) -> None:
    """Wait until every host of the lab is up."""
    _say_degraded(lab.wait(timeout))


@main.command(name="exec", context_settings={"ignore_unknown_options": True})
@click.option(
    "--host", "name", help="Run it inside this host.  [default: in the lab's network, on this machine]"
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_obj
def execute(lab: Lab, name: str | None, command: tuple[str, ...]) -> None:
    """Run COMMAND inside a host, or on this machine inside the lab's network."""
    requirements.check_root()
    if name:
        argv = lab.host(name).enter_command(list(command))
    elif network.exists(lab.name):
        argv = ["nsenter", f"--net={network.NETNS_DIR / network.switch_namespace(lab.name)}", "--", *command]
    else:
        raise LabError(f"lab {lab.name!r} is not up. Boot it: treeline-lab --name {lab.name} up")
    os.execvp(argv[0], argv)  # noqa: S606


@main.command()
@click.argument("name")
@click.argument("state", type=click.Choice(["down", "up"]))
@click.pass_obj
def link(lab: Lab, name: str, state: str) -> None:
    """Fault: plug the network cable of host NAME out (down) or in (up)."""
    lab.link(name, state == "up")


@main.command()
@click.argument("name")
@click.pass_obj
def kill(lab: Lab, name: str) -> None:
    """Fault: power loss of host NAME. Its disk stays; `start` boots it again."""
    lab.kill(name)


@main.command()
@click.argument("name")
@click.pass_obj
def start(lab: Lab, name: str) -> None:
    """Boot host NAME again after a power loss."""
    click.echo(f"{name}: {'booted' if lab.start(name) else 'running already'}")


@main.command()
@click.argument("name")
@click.pass_obj
def reboot(lab: Lab, name: str) -> None:
    """Reboot host NAME in good order and wait until it is up."""
    lab.reboot(name)


@main.command(name="inventory")
@click.argument("path", type=click.Path(path_type=Path, dir_okay=False))
@click.pass_obj
def write_inventory(lab: Lab, path: Path) -> None:
    """Write an inventory file for the hosts of this lab at PATH (and group_vars beside it)."""
    hosts = {item.name: item.address for item in lab.status() if item.address}
    if not hosts:
        raise LabError(f"lab {lab.name!r} has no hosts. Boot it: treeline-lab --name {lab.name} up")
    click.echo(lab.write_inventory(path, hosts))


@main.command(name="router")
@click.argument("host", metavar="NAME=ADDRESS")
@click.option("--timeout", default=UP_TIMEOUT_S, show_default=True, help="Seconds to wait for the host.")
@click.pass_obj
def boot_router(lab: Lab, host: str, timeout: float) -> None:
    """Boot a host with a real SGLang router on it and print the router's address.

    The package (extra `router`) is installed once into the lab's cache and bound read-only into the host.
    Workers are put on its list by the role sglang_router_worker.
    """
    requirements.check()
    ((name, address),) = _wanted((host,), None).items()
    click.echo(router.up(lab, name, address, timeout))


@main.command(name="rootfs")
@click.pass_obj
def build_rootfs(lab: Lab) -> None:
    """Build the root file system of lab hosts, unless it is cached, and print its path."""
    requirements.check()
    lab.files.make_base()
    click.echo(rootfs.ensure(lab.files.rootfs_cache, rootfs.machine_recipe(), click.echo))


@main.command(name="requirements")
@click.option("--install", is_flag=True, help="Install the missing Debian packages with apt-get.")
@click.pass_obj
def show_requirements(lab: Lab, install: bool) -> None:
    """Check what this machine needs for lab hosts; exit status 1 when something is missing."""
    found = requirements.examine(lab.files.state_dir)
    packages = requirements.packages_of(found)
    if install and packages:
        requirements.install(packages, click.echo)
        found = requirements.examine(lab.files.state_dir)
    missing = [item for item in found if not item.present]
    if missing:
        raise LabError(requirements.explain(missing))
    click.echo("this machine can run lab hosts")
    for note in requirements.notes():
        click.echo(f"note: {note}")


for each in (*fault_commands.COMMANDS, *disk_commands.COMMANDS):
    main.add_command(each)


if __name__ == "__main__":
    main(prog_name="treeline-lab")
