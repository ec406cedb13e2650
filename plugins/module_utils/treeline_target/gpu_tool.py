"""Run the GPU query tool (nvidia-smi, or what stands in for it) in its CSV form, always bounded in time.

The forms were taken from public reports: utkuozdemir/nvidia_gpu_exporter#438 (rows that cannot be read,
commas in process names), leptonai/gpud#1133 (cells of a GPU that needs a reset). A driver that lost a GPU
lets the tool hang in the kernel, where no signal reaches it: such a process is left alone, never waited for.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Optional, Sequence

DEFAULT = "nvidia-smi"
# Given in place of a command, it says that no GPU is to be looked at.
NONE = "none"
TIMEOUT_S = 30.0
KILL_WAIT_S = 2.0
MAX_OUTPUT = 4 * 1024 * 1024
FORMAT = "--format=csv,noheader,nounits"
DRIVER_DEVICE = Path("/dev/nvidiactl")

_UNKNOWN_FIELD = re.compile(r'Field "([^"]+)" is not a valid field to query')


class GpuToolError(Exception):
    """The tool gave no usable answer; the message says what it said. `hung`: it did not end in time."""

    def __init__(self, message: str, hung: bool = False) -> None:
        super().__init__(message)
        self.hung = hung


@dataclass(frozen=True)
class Table:
    """Rows of cells as text, one for each of `fields`. `unknown`: fields this version of the tool has not.

    `problem` is what the tool complained about although it printed rows, such as one GPU that is lost.
    """

    fields: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    unknown: tuple[str, ...] = ()
    problem: Optional[str] = None

    def mappings(self) -> list[dict[str, str]]:
        """The rows as mappings from field to cell."""
        return [{name: row[place] for place, name in enumerate(self.fields)} for row in self.rows]


@dataclass(frozen=True)
class _Ended:
    rc: int
    stdout: str
    stderr: str

    @property
    def complaint(self) -> str:
        """What it said first. Many complaints come on standard output."""
        lines = [line.strip() for line in (self.stderr + "\n" + self.stdout).splitlines() if line.strip()]
        return lines[0][:300] if lines else "no output"


def find(command: str) -> Optional[str]:
    """Path of the tool; None where it is not on this host, or not to be asked."""
    return None if command == NONE else shutil.which(command or DEFAULT)


def absence(command: str) -> str:
    """Why there is nothing to ask, in words."""
    if command == NONE:
        return "GPUs are not looked at (treeline_gpu_query: none)"
    return "no GPU query tool on this host (%s)" % (command or DEFAULT)


def query(path: str, what: str, fields: Sequence[str], timeout_s: float = TIMEOUT_S) -> Table:
    """Ask `--query-WHAT=FIELDS`; fields that the tool does not know are left out and named.

    `what` is `gpu` or `compute-apps`; `timeout_s` bounds all attempts together. Raises GpuToolError when the
    tool cannot be run, does not answer in time, or fails without a row.
    """
    deadline = time.monotonic() + timeout_s
    asked, unknown = list(fields), []
    while True:
        ended = run([path, "--query-%s=%s" % (what, ",".join(asked)), FORMAT], deadline - time.monotonic())
        refused = refused_fields(ended.stdout + ended.stderr) if ended.rc != 0 else []
        known = without(asked, refused)
        if not known or len(known) == len(asked):
            break
        unknown += [name for name in asked if name not in known]
        asked = known
    rows = tuple(row for row in (_cells(line, asked) for line in ended.stdout.splitlines()) if row)
    problem = None
    if ended.rc != 0:
        problem = "%s exited %d: %s" % (path, ended.rc, ended.complaint)
        # In a table of one column a complaint would pass for a row.
        if not rows or len(asked) == 1:
            raise GpuToolError(problem)
    return Table(tuple(asked), rows, tuple(unknown), problem)


def refused_fields(said: str) -> list[str]:
    """Fields that the tool names as ones it does not know."""
    return _UNKNOWN_FIELD.findall(said)


def without(fields: Sequence[str], refused: Sequence[str]) -> list[str]:
    """The fields but those that were refused, and those of their groups: it names one at a time."""
    return [name for name in fields if not _of_group(name, refused)]


def run(argv: Sequence[str], timeout_s: float) -> _Ended:
    """Run the tool to its end. Output goes through files: a child of it that lives on holds nothing up.

    Raises GpuToolError when it cannot be started or does not end in time; it is killed then.
    """
    if timeout_s <= 0:
        raise GpuToolError("%s did not answer in time" % argv[0], hung=True)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(
                list(argv), stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
            )
        except OSError as error:
            raise GpuToolError("%s cannot be run: %s" % (argv[0], error.strerror or error)) from None
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            end(process)
            raise GpuToolError(
                "%s did not answer within %.0f s; it hangs when the driver has lost a GPU"
                % (argv[0], timeout_s),
                hung=True,
            ) from None
        return _Ended(process.returncode, _read(out), _read(err))


def end(process: subprocess.Popen[bytes], wait_s: float = KILL_WAIT_S) -> bool:
    """Kill a process that leads a session of its own, with its children; False when it does not die."""
    with contextlib.suppress(OSError):  # gone already
        os.killpg(process.pid, signal.SIGKILL)
    try:
        process.wait(wait_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def _read(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read(MAX_OUTPUT).decode("utf-8", "replace")


def _of_group(name: str, refused: Sequence[str]) -> bool:
    return any(name == other or ("." in other and _group(name) == _group(other)) for other in refused)


def _group(name: str) -> str:
    return name.rpartition(".")[0]


def _cells(line: str, fields: Sequence[str]) -> Optional[tuple[str, ...]]:
    """The cells of a row, None where it is none. Only a process name may hold commas."""
    parts = [part.strip() for part in line.split(",")]
    extra = len(parts) - len(fields)
    if extra < 0:
        return None
    if extra > 0:
        if "process_name" not in fields:
            return None
        at = fields.index("process_name")
        parts[at : at + extra + 1] = [", ".join(parts[at : at + extra + 1])]
    return tuple(parts)
