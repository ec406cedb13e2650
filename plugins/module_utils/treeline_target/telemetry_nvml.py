"""Print what NVML says about every GPU once a second, in the CSV form of the query tool's loop.

Stands alone: the sampler runs this text in a process of its own (`python -c`), because a call into a driver
that has lost a GPU may never return. It needs pynvml (the package nvidia-ml-py) and ends with its reader.
"""

from __future__ import annotations

import importlib
import sys
import time
from typing import Any, Callable

FIELDS = (
    *("index", "name", "power.draw", "utilization.gpu", "clocks.current.sm"),
    *("clocks.current.memory", "temperature.gpu", "memory.used"),
)
ABSENT = "[N/A]"


def readings(nvml: Any, handle: Any) -> list[str]:
    """The cells of one GPU after its index and name; what it does not tell is absent."""
    asked: list[Callable[[], float]] = [
        lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
        lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
        lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
        lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
        lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used / 2**20,
    ]
    cells = []
    for ask in asked:
        try:
            cells.append("%.2f" % ask())
        except nvml.NVMLError:
            cells.append(ABSENT)
    return cells


def main(interval_s: float) -> None:
    """Print until the reader is gone."""
    pynvml: Any = importlib.import_module("pynvml")
    pynvml.nvmlInit()
    handles = [pynvml.nvmlDeviceGetHandleByIndex(at) for at in range(pynvml.nvmlDeviceGetCount())]
    names = [pynvml.nvmlDeviceGetName(handle) for handle in handles]
    texts = [name.decode("utf-8", "replace") if isinstance(name, bytes) else name for name in names]
    while True:
        for index, handle in enumerate(handles):
            print(", ".join([str(index), texts[index], *readings(pynvml, handle)]))
        sys.stdout.flush()
        time.sleep(interval_s)


if __name__ == "__main__":
    main(float(sys.argv[1]))
