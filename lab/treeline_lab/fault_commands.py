"""The commands of `treeline-lab` that play faults of the kernel and the GPUs; all of them stand-ins."""

from __future__ import annotations

import re

import click

from treeline_lab import standins
from treeline_lab.errors import LabError
from treeline_lab.lab import Lab

_SET = re.compile(r"(\d+):([\w.]+)=(.*)")


@click.command()
@click.argument("name")
@click.argument("code", type=click.IntRange(1, 999))
@click.option("--pid", type=click.IntRange(1), help="Process that it names, as the host numbers it.")
@click.option("--process", default="python3", show_default=True, help="Name of that process.")
@click.option("--pci", default=standins.PCI, show_default=True, help="Address of the GPU.")
@click.pass_obj
def xid(lab: Lab, name: str, code: int, pid: int | None, process: str, pci: str) -> None:
    """Fault: plant an Xid line of the GPU driver in the kernel's stand-in on host NAME.

    79 is a GPU that fell off the bus, 48 a memory error, 74 NVLink, 119 its firmware, 13 and 31 faults of the
    application itself.
    """
    line = standins.xid_line(code, pid, process, pci)
    standins.plant_kernel_line(lab.existing(name)[0], line)
    click.echo(f"{name}: {line}")


@click.command(name="kernel-line")
@click.argument("name")
@click.argument("text")
@click.pass_obj
def kernel_line(lab: Lab, name: str, text: str) -> None:
    """Fault: plant any TEXT in the kernel's stand-in on host NAME."""
    standins.plant_kernel_line(lab.existing(name)[0], f"{text} {standins.PLANTED}")


@click.command()
@click.argument("name")
@click.option("--count", type=click.IntRange(1, 16), help="So many GPUs, all well.  [default: 2]")
@click.option("--memory", default=81920, show_default=True, help="MiB of each.")
@click.option(
    "--used-by", "uses", multiple=True, metavar="UNIT=MIB", help="A unit whose processes hold memory."
)
@click.option("--set", "sets", multiple=True, metavar="GPU:FIELD=VALUE", help="What a GPU says of itself.")
@click.option("--answer", help="`hang`, `ok`, or what the tool fails with.")
@click.option("--remove", is_flag=True, help="Take the tool away again.")
@click.pass_obj
def gpus(
    lab: Lab,
    name: str,
    count: int | None,
    memory: int,
    uses: tuple[str, ...],
    sets: tuple[str, ...],
    answer: str | None,
    remove: bool,
) -> None:
    """Give host NAME stand-in GPUs that a query tool tells of, or change what it tells.

    Without GPUs a host has no such tool. The memory error of `treeline-lab gpus lab1 --set
    0:ecc.errors.uncorrected.volatile.total=1` is one that a trial running meanwhile is void for.
    """
    host = lab.existing(name)[0]
    if remove:
        click.echo(
            f"{name}: {'no stand-in GPUs any more' if standins.take_gpus(host) else 'there were none'}"
        )
        return
    if count is not None or not (uses or sets or answer):
        standins.give_gpus(host, count or 2, memory)
        click.echo(f"{name}: {count or 2} stand-in GPUs; ask /{standins.TOOL} (treeline_gpu_query)")
    for text in uses:
        unit, _, mib = text.rpartition("=")
        if not unit or not mib.isdigit():
            raise LabError(f"--used-by: {text!r} is not UNIT=MIB, such as sglang-ddtree.service=40000")
        standins.use_by(host, unit, float(mib))
    for text in sets:
        match = _SET.fullmatch(text)
        if match is None:
            raise LabError(f"--set: {text!r} is not GPU:FIELD=VALUE, such as 0:temperature.gpu=90")
        standins.set_field(host, int(match[1]), match[2], match[3])
    if answer is not None:
        standins.set_answer(host, None if answer == "ok" else answer)


@click.command()
@click.argument("name")
@click.option("--unit", required=True, help="In whose control group; it need not run.")
@click.option("--gpu", default=0, show_default=True, help="On which GPU.")
@click.option("--memory", default=40960, show_default=True, help="MiB that it holds.")
@click.pass_obj
def hold(lab: Lab, name: str, unit: str, gpu: int, memory: int) -> None:
    """Fault: start a process on host NAME that holds memory of a stand-in GPU."""
    pid = standins.hold(lab.existing(name)[0], unit, memory, gpu)
    click.echo(f"{name}: pid {pid} in {unit} holds {memory} MiB of GPU {gpu}")


COMMANDS = (xid, kernel_line, gpus, hold)
