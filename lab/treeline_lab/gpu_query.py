#!/usr/bin/python3
"""Stands in for nvidia-smi on a lab host, which has no GPU. Not a real tool, and it says so in every name.

It is copied into the host and answers the query forms that Treeline uses, from the state that `treeline-lab
gpus` and `treeline-lab hold` wrote:

    treeline-lab-gpus --query-gpu=FIELDS --format=csv,noheader,nounits [-l SECONDS]
    treeline-lab-gpus --query-compute-apps=FIELDS --format=csv,noheader,nounits

State: {"gpus": [{field: value}], "used_by": [{"unit", "gpu", "mib"}], "holders": [{"pid", "start", "gpu",
"mib"}], "answer": null | "hang" | text of a failure}. Every process of a `used_by` unit that runs holds
memory; a holder does so while its process lives.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

STATE = Path("/etc/treeline-lab/gpus.json")
PROC = Path("/proc")
APP_FIELDS = ("pid", "process_name", "used_memory", "used_gpu_memory", "gpu_uuid", "gpu_name")


def start_of(pid: str) -> str:
    """Start time of a process in clock ticks since boot, empty for one that is gone (proc(5), field 22)."""
    try:
        return (PROC / pid / "stat").read_text(errors="replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def pids_of(unit: str) -> Iterator[str]:
    """Processes in the control group of a unit."""
    for entry in PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            paths = [line.split(":", 2)[2] for line in (entry / "cgroup").read_text().splitlines()]
        except (OSError, IndexError):
            continue
        if any(unit in path.split("/") for path in paths):
            yield entry.name


def holders(state: dict[str, Any]) -> list[tuple[str, int, float]]:
    """(pid, GPU, MiB) of everything that holds memory now."""
    found = [
        (str(one["pid"]), int(one["gpu"]), float(one["mib"]))
        for one in state.get("holders", [])
        if start_of(str(one["pid"])) == str(one["start"])
    ]
    for use in state.get("used_by", []):
        found += [(pid, int(use["gpu"]), float(use["mib"])) for pid in pids_of(str(use["unit"]))]
    return found


def gpu_rows(state: dict[str, Any], fields: list[str]) -> Iterator[list[str]]:
    """The cells of each GPU; a field that it has no value for is [N/A], as on a real one."""
    held = holders(state)
    stamp = time.strftime("%Y/%m/%d %H:%M:%S") + f".{time.time_ns() // 1_000_000 % 1000:03d}"
    for index, gpu in enumerate(state["gpus"]):
        used = float(gpu.get("memory.used", 0)) + sum(mib for _, at, mib in held if at == index)
        values = {**gpu, "timestamp": stamp, "index": index, "memory.used": f"{used:.0f}"}
        yield [str(values.get(name, "[N/A]")) for name in fields]


def app_rows(state: dict[str, Any], fields: list[str]) -> Iterator[list[str]]:
    """The cells of each process that holds memory."""
    for pid, index, mib in holders(state):
        gpu = state["gpus"][index]
        name = (
            (PROC / pid / "comm").read_text(errors="replace").strip()
            if (PROC / pid).exists()
            else "[Not Found]"
        )
        values = {
            "pid": pid,
            "process_name": name,
            "used_memory": f"{mib:.0f}",
            "used_gpu_memory": f"{mib:.0f}",
            "gpu_uuid": gpu["uuid"],
            "gpu_name": gpu["name"],
        }
        yield [values[name] for name in fields]


def answer(what: str, fields: list[str]) -> int:
    """Print one answer; the exit status."""
    state = json.loads(STATE.read_text(encoding="utf-8"))
    said = state.get("answer")
    if said == "hang":
        time.sleep(3600)
    if said:
        print(said)
        return 9
    known = set(APP_FIELDS) if what == "compute-apps" else {"timestamp", *state["fields"]}
    for name in fields:
        if name not in known:
            print(f'Field "{name}" is not a valid field to query.\n')
            return 2
    for row in app_rows(state, fields) if what == "compute-apps" else gpu_rows(state, fields):
        print(", ".join(row), flush=True)
    return 0


def main(argv: list[str]) -> int:
    """Understand the command line and answer it, once or until the reader is gone."""
    query, loop = "", 0.0
    words = iter(argv)
    for word in words:
        if word.startswith("--query-"):
            query = word
        elif word == "-l":
            loop = float(next(words))
        elif word.startswith("--loop="):
            loop = float(word.partition("=")[2])
    what, _, names = query.removeprefix("--query-").partition("=")
    if what not in ("gpu", "compute-apps"):
        print(__doc__)
        return 1
    while True:
        status = answer(what, names.split(","))
        if not loop or status:
            return status
        time.sleep(loop)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
