"""Sample the GPUs once a second beside a load: by the query tool's own loop, or NVML where there is no tool.

Whatever asks the driver runs in a process of its own. It is started, read and ended off the load's thread,
and nothing waits for it without a bound. It dies by itself within a second of ours (a pipe without a reader).
"""

from __future__ import annotations

import contextlib
import gzip
import importlib.util
import inspect
import json
import os
import select
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Mapping, Optional

from . import clock, gpu_facts, gpu_tool, telemetry_nvml
from .files import make_folder
from .telemetry import Recording, Sample

FIELDS = (
    *("timestamp", "index", "name", "power.draw", "utilization.gpu", "clocks.current.sm"),
    *("clocks.current.memory", "temperature.gpu", "memory.used"),
)
JOIN_S = 5.0
# Of eight GPUs: twelve hours.
MAX_SAMPLES = 8 * 12 * 3600
_FLUSH_S = 10.0
_READ_SIZE = 65536
_WAKE_S = 0.5
# A stamp of the tool may lie behind its arrival by what a pipe buffers, not ahead of it.
_STAMP_BEHIND_S, _STAMP_AHEAD_S = 600.0, 2.0


class Sampler:
    """Samples from `start` to `stop`; `path` gets the samples as compressed NDJSON beside the result.

    `command` is the GPU query tool. Without any source, and when one fails, the recording says so; nothing is
    raised.
    """

    def __init__(
        self, command: str = gpu_tool.DEFAULT, path: Optional[Path] = None, interval_s: int = 1
    ) -> None:
        self._command = command
        self._path = path
        self._interval_s = interval_s
        self._samples: list[Sample] = []
        self._refused: list[str] = []
        self._source: Optional[str] = None
        self._note: Optional[str] = None
        self._stop = threading.Event()
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._thread: Optional[threading.Thread] = None
        # Realtime minus monotonic, to place the tool's stamps; taken once: a clock that is set moves none.
        self._offset = time.time() - clock.monotonic()

    def start(self) -> None:
        """Begin; returns at once."""
        path = gpu_tool.find(self._command)
        if path is None and (self._command == gpu_tool.NONE or not importlib.util.find_spec("pynvml")):
            self._note = gpu_tool.absence(self._command)
            return
        self._thread = threading.Thread(target=self._run, args=(path,), name="gpu-telemetry", daemon=True)
        self._thread.start()

    def stop(self) -> Recording:
        """End it, in bounded time, and return what was sampled. May be called again."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(JOIN_S)
        if self._process is not None and not gpu_tool.end(self._process):
            self._note = "the GPU query tool hangs in the kernel and could not be ended"
        return Recording(self._source, tuple(self._samples), self._note)

    def __enter__(self) -> Sampler:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self, path: Optional[str]) -> None:
        try:
            if path is None:
                program = inspect.getsource(telemetry_nvml)
                argv = [sys.executable, "-c", program, str(self._interval_s)]
                self._loop("NVML", argv, telemetry_nvml.FIELDS)
                return
            self._ask(path)
        except OSError as error:
            self._note = "telemetry broke off: %s" % error
        except Exception as error:  # a thread that died unseen would look like a GPU that idles
            self._note = "telemetry broke off: unexpected %s: %s" % (type(error).__name__, error)

    def _ask(self, path: str) -> None:
        """Run the tool's loop; where it refuses a field that it does not know, again without that."""
        fields = list(FIELDS)
        while fields:
            asked = "--query-gpu=%s" % ",".join(fields)
            argv = [path, asked, gpu_tool.FORMAT, "-l", str(self._interval_s)]
            self._refused = []
            self._loop(path, argv, tuple(fields))
            known = gpu_tool.without(fields, self._refused)
            if len(known) == len(fields):
                return
            fields = known

    def _loop(self, source: str, argv: list[str], fields: tuple[str, ...]) -> None:
        if self._stop.is_set():
            return
        self._source = source
        self._process = process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            bufsize=0,
        )
        if process.stdout is None:  # it was asked for as a pipe
            return
        with contextlib.ExitStack() as stack:
            stack.callback(gpu_tool.end, process)
            stack.callback(process.stdout.close)
            file: Optional[IO[str]] = None
            if self._path is not None:
                make_folder(self._path.parent, 0o700)
                file = stack.enter_context(gzip.open(self._path, "wt", encoding="utf-8"))
            self._read(process.stdout.fileno(), fields, file)

    def _read(self, descriptor: int, fields: tuple[str, ...], file: Optional[IO[str]]) -> None:
        rest = b""
        flushed = clock.monotonic()
        if file is not None:
            head = {"source": self._source, "realtime_minus_monotonic_s": round(self._offset, 6)}
            file.write(json.dumps(head) + "\n")
        while not self._stop.is_set():
            if not select.select([descriptor], [], [], _WAKE_S)[0]:
                continue
            data = os.read(descriptor, _READ_SIZE)
            if not data:
                if not self._refused:
                    self._note = self._note or "%s ended by itself" % self._source
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._take(line.decode("utf-8", "replace"), fields, file)
            if len(self._samples) >= MAX_SAMPLES:
                self._note = "sampling ended after %d samples" % MAX_SAMPLES
                return
            if file is not None and clock.monotonic() - flushed > _FLUSH_S:
                file.flush()
                flushed = clock.monotonic()

    def _take(self, line: str, fields: tuple[str, ...], file: Optional[IO[str]]) -> None:
        cells = cells_of(line, fields)
        if cells is None:
            self._refused += gpu_tool.refused_fields(line)
            if line.strip() and not self._refused and self._note is None:
                self._note = "%s said: %s" % (self._source, line.strip()[:200])
            return
        sample = sample_of(cells, clock.monotonic(), self._offset)
        if not self._samples:
            self._source = "%s (%s)" % (self._source, cells.get("name", "unnamed"))
        self._samples.append(sample)
        if file is not None:
            file.write(json.dumps(sample.as_dict()) + "\n")


def cells_of(line: str, fields: tuple[str, ...]) -> Optional[dict[str, str]]:
    """The cells of a line of the loop by field, None for one that is no row of a GPU."""
    parts = [part.strip() for part in line.split(",")]
    if len(parts) != len(fields):
        return None
    cells = {name: parts[place] for place, name in enumerate(fields)}
    return cells if cells.get("index", "").isdigit() else None


def sample_of(cells: Mapping[str, str], arrived: float, offset: float) -> Sample:
    """The sample in a row that came at `arrived`; `offset` is realtime minus monotonic, in seconds."""
    return Sample(
        at=round(_moment(cells.get("timestamp", ""), arrived, offset), 3),
        gpu=cells["index"],
        power_w=_cell(cells, "power.draw"),
        utilization=_cell(cells, "utilization.gpu"),
        sm_mhz=_cell(cells, "clocks.current.sm"),
        memory_mhz=_cell(cells, "clocks.current.memory"),
        temperature_c=_cell(cells, "temperature.gpu"),
        memory_mib=_cell(cells, "memory.used"),
    )


def _cell(cells: Mapping[str, str], name: str) -> Optional[float]:
    return gpu_facts.number(cells.get(name, ""))


def _moment(stamp: str, arrived: float, offset: float) -> float:
    """When the tool took the sample: by its own stamp (local time) where that can be, else when it came."""
    head, _, fraction = stamp.partition(".")
    try:
        at = time.mktime(time.strptime(head, "%Y/%m/%d %H:%M:%S")) + float("0.%s" % (fraction or "0"))
    except (ValueError, OverflowError):
        return arrived
    moment = at - offset
    return moment if -_STAMP_AHEAD_S <= arrived - moment <= _STAMP_BEHIND_S else arrived
