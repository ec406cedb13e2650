"""What the GPUs of a host say about themselves: identity, clocks, errors, memory, and who holds it.

Plain values under the tool's own field names, so that a reader finds them in NVIDIA's manual. What a GPU or a
driver does not tell is None, never a guess.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterator, Mapping, Optional, Sequence, Union

from . import clock, gpu_tool

Value = Union[int, float, str, None]

IDENTITY = ("index", "uuid", "name", "driver_version", "pci.bus_id")
NOW = (
    *("memory.total", "memory.used", "power.draw", "power.limit", "temperature.gpu", "utilization.gpu"),
    *("clocks.current.sm", "clocks.current.memory", "clocks.max.sm", "mig.mode.current"),
)
# Counters that only grow and flags that a reset clears; treeline.node_facts compares them.
ERRORS = (
    "ecc.mode.current",
    "ecc.errors.uncorrected.volatile.total",
    "ecc.errors.uncorrected.aggregate.total",
    "retired_pages.double_bit.count",
    "retired_pages.pending",
    "remapped_rows.uncorrectable",
    "remapped_rows.pending",
    "remapped_rows.failure",
    "gpu_recovery_action",
)
GPU_FIELDS = (*IDENTITY, *NOW, *ERRORS)
APP_FIELDS = ("pid", "process_name", "used_memory", "gpu_uuid")

_ABSENT = frozenset(
    ("", "n/a", "[n/a]", "not supported", "[not supported]", "[unknown error]", "[not found]", "not found")
) | {"[insufficient permissions]", "insufficient permissions"}
_LOST = {"[gpu is lost]": "lost", "[gpu requires reset]": "requires reset", "err!": "in error"}
_TEXTS = (*IDENTITY[1:], "mig.mode.current", "ecc.mode.current", "gpu_recovery_action")


@dataclass(frozen=True)
class App:
    """One process on one GPU, as the tool lists it. MiB; None where the tool does not tell."""

    pid: int
    process_name: str
    used_memory: Optional[float]
    gpu_uuid: str


@dataclass(frozen=True)
class Facts:
    """One look. `tool` is None where there is none; `problem` says what kept it from answering (in part).

    `gpus` has one mapping per GPU: GPU_FIELDS and `state` (ok, lost, requires reset, in error). `hidden`
    counts processes that the tool lists but does not let us see.
    """

    tool: Optional[str]
    at: str = ""
    problem: Optional[str] = None
    hung: bool = False
    gpus: tuple[dict[str, Value], ...] = ()
    apps: tuple[App, ...] = ()
    hidden: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """GPU names in index order."""
        return tuple(str(gpu.get("name")) for gpu in self.gpus if gpu.get("name") is not None)

    @property
    def driver(self) -> Optional[str]:
        """The driver's version."""
        return next((str(gpu["driver_version"]) for gpu in self.gpus if gpu.get("driver_version")), None)

    @property
    def hardware_class(self) -> str:
        """A first name for the hardware class: `8x NVIDIA B300`, `2x A + 1x B`, or `cpu`."""
        kinds = dict.fromkeys(self.names)
        return " + ".join("%dx %s" % (self.names.count(name), name) for name in kinds) or "cpu"


def look(command: str = gpu_tool.DEFAULT, timeout_s: float = gpu_tool.TIMEOUT_S) -> Facts:
    """Ask for the GPUs and their processes; never raises, what went wrong is in `problem`."""
    path = gpu_tool.find(command)
    at = clock.utc_now()
    if path is None:
        return Facts(None, at)
    try:
        gpus = gpu_tool.query(path, "gpu", GPU_FIELDS, timeout_s)
        apps = gpu_tool.query(path, "compute-apps", APP_FIELDS, timeout_s)
    except gpu_tool.GpuToolError as error:
        return Facts(path, at, str(error), error.hung)
    rows = parse_gpus(gpus)
    processes, hidden = parse_apps(apps)
    return Facts(path, at, gpus.problem or apps.problem, False, rows, processes, hidden)


def parse_gpus(table: gpu_tool.Table) -> tuple[dict[str, Value], ...]:
    """One mapping per GPU; fields that were not asked for are None."""
    return tuple(_gpu(cells) for cells in table.mappings())


def parse_apps(table: gpu_tool.Table) -> tuple[tuple[App, ...], int]:
    """The processes, and how many rows hide theirs (restricted containers, MIG)."""
    found: list[App] = []
    hidden = 0
    for cells in table.mappings():
        pid = cells.get("pid", "")
        if not pid.isdigit():
            hidden += 1
            continue
        name = "" if is_absent(cells.get("process_name", "")) else cells["process_name"]
        found.append(App(int(pid), name, number(cells.get("used_memory", "")), cells.get("gpu_uuid", "")))
    return tuple(found), hidden


def number(text: str) -> Optional[float]:
    """A cell as a number; None for every way of saying that there is none."""
    try:
        value = float(text.split()[0]) if text.split() else None
    except ValueError:
        return None
    return value if value is None or value == value else None  # no NaN


def is_absent(text: str) -> bool:
    """Whether a cell says that there is no value."""
    return text.strip().lower() in _ABSENT


def faults(gpus: Sequence[Mapping[str, Value]]) -> Iterator[str]:
    """What makes a GPU useless until somebody acts, one sentence each."""
    for gpu in gpus:
        action = gpu.get("gpu_recovery_action")
        if gpu.get("state") != "ok":
            yield "%s: its state is: %s; reset it or reboot the host" % (named(gpu), gpu.get("state"))
        elif isinstance(action, str) and action.lower() != "none":
            yield "the driver asks to recover %s first: %s" % (named(gpu), action)


def named(gpu: Mapping[str, Value]) -> str:
    """A GPU as a message shows it."""
    return "GPU %s (%s)" % (gpu.get("index"), gpu.get("uuid"))


def _gpu(cells: dict[str, str]) -> dict[str, Value]:
    values: dict[str, Value] = {name: _value(name, cells.get(name, "")) for name in GPU_FIELDS}
    states = [_LOST[cell.strip().lower()] for cell in cells.values() if cell.strip().lower() in _LOST]
    values["state"] = states[0] if states else "ok"
    return values


def _value(name: str, cell: str) -> Value:
    text = cell.strip()
    if is_absent(text) or text.lower() in _LOST:
        return None
    if name in _TEXTS:
        return text
    value = number(text)
    if value is None:
        return text
    return int(value) if value.is_integer() else value
