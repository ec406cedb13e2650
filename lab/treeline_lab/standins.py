"""Stand-ins for what a lab host has not: a kernel that reports GPUs, and GPUs that a tool can ask about.

Nothing of it is real, and all of it says so: planted kernel lines end with a remark, the GPUs are called
stand-ins, and Treeline labels what it reads from the kernel's stand-in.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from treeline_lab import gpu_query, plant_holder
from treeline_lab.errors import LabError
from treeline_lab.host import KERNEL_LOG, Host
from treeline_lab.state import write_atomically

# Where inventory/lab tells Treeline to look (treeline_gpu_query); a host has no tool until it is given GPUs.
TOOL = Path("usr/local/bin/treeline-lab-gpus")
STATE = gpu_query.STATE.relative_to("/")
PCI = "0000:3b:00"
PLANTED = "(planted by treeline-lab, not real)"

# As drivers print them after the pid and name; NVIDIA/open-gpu-kernel-modules#446 and #507, leptonai/gpud#987
# and #1160, sgl-project/sglang#32855. Other codes get a text without details.
XID_TEXTS: Mapping[int, str] = {
    13: "Graphics Exception: ESR 0x50d730=0x20c000e 0x50d734=0x20",
    31: "Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC0 GPCCLIENT_T1_0 faulted @ 0x7f2b_4a00. "
    "Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_WRITE",
    43: "Ch 00000008",
    45: "Ch 00000008, errorString CTX SWITCH TIMEOUT, Info 0x1c00a",
    48: "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at partition 6",
    63: "Row Remapper: New row marked for remapping, reset gpu to activate.",
    64: "Row Remapper: Failed to remap a row",
    74: "NVLink: fatal error detected on link 5(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
    79: "GPU has fallen off the bus.",
    92: "High single-bit ECC error rate",
    94: "Contained: SM (0x1). RST: No, D-RST: No",
    95: "Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No",
    119: "Timeout after 6s of waiting for RPC response from GPU0 GSP! Expected function 76 (GSP_RM_CONTROL)",
    120: "GSP task panic: load access fault (cause:0x5)",
    145: "NVLINK5: RLW_REMAP Nonfatal Error",
    149: "NVLINK5: NETIR_LINK_EVT Fatal XC0 i0 Link 05",
    154: "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
}

# What a GPU of the lab says of itself; numbers without a model behind them.
GPU: Mapping[str, Any] = {
    "name": "Stand-in GPU of treeline-lab",
    "driver_version": "stand-in",
    "memory.total": 81920,
    "memory.used": 4,
    "power.draw": "100.00",
    "power.limit": "700.00",
    "temperature.gpu": 40,
    "utilization.gpu": 0,
    "clocks.current.sm": 1000,
    "clocks.current.memory": 2000,
    "clocks.max.sm": 1980,
    "ecc.mode.current": "Enabled",
    "ecc.errors.uncorrected.volatile.total": 0,
    "ecc.errors.uncorrected.aggregate.total": 0,
    "retired_pages.double_bit.count": "[N/A]",
    "retired_pages.pending": "[N/A]",
    "remapped_rows.uncorrectable": 0,
    "remapped_rows.pending": "No",
    "remapped_rows.failure": "No",
    "gpu_recovery_action": "None",
    "mig.mode.current": "Disabled",
}


def xid_line(code: int, pid: int | None = None, process: str = "python3", pci: str = PCI) -> str:
    """A line as the driver's kernel module prints it, with the remark that it was planted."""
    who = f"pid={pid}, name={process}" if pid is not None else "pid='<unknown>', name=<unknown>"
    text = XID_TEXTS.get(code, "no text is known for this code")
    return f"NVRM: Xid (PCI:{pci}): {code}, {who}, {text} {PLANTED}"


def plant_kernel_line(host: Host, text: str) -> None:
    """Append a line to the host's stand-in for the kernel's log, stamped now."""
    stamp = datetime.now(UTC).isoformat(timespec="microseconds")
    path = _root(host) / KERNEL_LOG
    with path.open("a", encoding="utf-8") as stream:
        stream.write(f"{stamp} {text}\n")


def give_gpus(host: Host, count: int, memory_mib: int = 81920) -> None:
    """Install the stand-in tool with so many GPUs, all well, nothing on them."""
    root = _root(host)
    tool = root / TOOL
    write_atomically(tool, Path(gpu_query.__file__).read_bytes())
    tool.chmod(0o755)
    gpus = [
        {
            **GPU,
            "uuid": f"GPU-stand-in-{index:04d}",
            "pci.bus_id": f"stand-in:{index:02d}",
            "memory.total": memory_mib,
        }
        for index in range(count)
    ]
    fields = ["index", "uuid", "pci.bus_id", *GPU]
    _write(host, {"fields": fields, "gpus": gpus, "used_by": [], "holders": [], "answer": None})


def take_gpus(host: Host) -> bool:
    """Remove the tool and its state; whether there was any."""
    root = _root(host)
    there = (root / TOOL).exists()
    (root / TOOL).unlink(missing_ok=True)
    (root / STATE).unlink(missing_ok=True)
    return there


def set_field(host: Host, gpu: int, field: str, value: str) -> None:
    """Make a GPU say this of itself, such as one more memory error. Raises LabError for an unknown field."""
    state = _read(host)
    if field not in state["fields"]:
        raise LabError(f"the stand-in tool has no field {field!r}; it has: {', '.join(state['fields'])}")
    _gpu(state, gpu)[field] = value
    _write(host, state)


def set_answer(host: Host, answer: str | None) -> None:
    """Make the tool hang (`hang`), fail with a text, or answer again (None)."""
    _write(host, {**_read(host), "answer": answer})


def use_by(host: Host, unit: str, mib: float, gpu: int = 0) -> None:
    """From now on every process of the unit holds so much memory, whenever it runs."""
    state = _read(host)
    _gpu(state, gpu)
    state["used_by"].append({"unit": unit, "gpu": gpu, "mib": mib})
    _write(host, state)


def hold(host: Host, unit: str, mib: float, gpu: int = 0) -> int:
    """Start a process in the control group of a unit that holds GPU memory while it lives; its pid there."""
    state = _read(host)
    _gpu(state, gpu)
    done = host.enter(["/usr/bin/python3", "-c", Path(plant_holder.__file__).read_text("utf-8"), unit])
    words = done.stdout.split()
    if done.returncode != 0 or len(words) != 2:
        raise LabError(
            f"no process could be put into {unit} on {host.name}: {done.stderr.strip() or 'no output'}"
        )
    hold_as(host, int(words[0]), words[1], mib, gpu)
    return int(words[0])


def hold_as(host: Host, pid: int, start: str, mib: float, gpu: int = 0) -> None:
    """Let a process that runs already (its pid and start time inside the host) hold GPU memory."""
    state = _read(host)
    state["holders"].append({"pid": pid, "start": start, "gpu": gpu, "mib": mib})
    _write(host, state)


def _gpu(state: dict[str, Any], index: int) -> dict[str, Any]:
    gpus: list[dict[str, Any]] = state["gpus"]
    if not 0 <= index < len(gpus):
        raise LabError(f"GPU {index}: there are {len(gpus)}, counted from 0")
    return gpus[index]


def _root(host: Host) -> Path:
    if not host.files.mount.is_dir() or host.files.read() is None:
        raise LabError(f"there is no host {host.name} in lab {host.lab!r}")
    return host.files.mount


def _read(host: Host) -> dict[str, Any]:
    try:
        state: dict[str, Any] = json.loads((_root(host) / STATE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise LabError(
            f"{host.name} has no stand-in GPUs; give it some: treeline-lab gpus {host.name}"
        ) from None
    return state


def _write(host: Host, state: Mapping[str, Any]) -> None:
    path = _root(host) / STATE
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(state, indent=1).encode())
