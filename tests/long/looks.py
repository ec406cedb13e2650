"""What must hold after a sweep that was disturbed, as lists of sentences: empty is well."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from harness import Target
from killing import naming

# Words of processes of a host that belong to a sweep; the found service has none of them. With pipelining a
# module is an interpreter without arguments, and the shell that started it.
_BARE = re.compile(r"/usr/bin/python3( && sleep 0)?$")
_OURS = ("AnsiballZ", "ansible", "treeline_target", "31990", "treeline-lease")
# Of a measurement, what the same prompts give again; times and speeds are noise.
_SAME = (
    "concurrency",
    "context",
    "requests",
    "failed",
    "cancelled",
    "complete",
    "completion_tokens",
    "verify_calls",
)


@dataclass(frozen=True)
class Outcome:
    """What a sweep found out without what is noise: by item its verdict, its measurements, its evidence."""

    verdicts: dict[str, tuple[Any, ...]]
    measured: dict[str, tuple[tuple[Any, ...], ...]]
    evidence: dict[str, tuple[str, ...]]

    @classmethod
    def of(cls, results: Path) -> Outcome:
        """Read it from the only sweep below `results`; trials without a verdict are left out."""
        finished = [line for line in lines(results, "trials.jsonl") if line["event"] == "finished"]
        last = {line["item_id"]: line for line in finished if line["status"] != "void"}
        rows: dict[str, list[tuple[Any, ...]]] = {}
        for row in lines(results, "measurements.jsonl"):
            rows.setdefault(row["trial_id"], []).append(tuple(row[name] for name in _SAME))
        folders = {path.name: path for path in results.glob("*/evidence/*")}
        return cls(
            {item: _verdict(line) for item, line in last.items()},
            {item: tuple(sorted(rows.get(line["trial_id"], []), key=str)) for item, line in last.items()},
            {item: _names(folders.get(line["trial_id"])) for item, line in last.items()},
        )


def lines(results: Path, name: str) -> list[dict[str, Any]]:
    """The lines of a record file, a torn last one left out."""
    found = []
    for path in sorted(results.glob(f"*/{name}")):
        text = path.read_text(encoding="utf-8")
        found += [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    return found


def results_differ(control: Outcome, other: Outcome) -> list[str]:
    """Where a disturbed sweep came to other results than one that was left alone."""
    found = []
    for what in ("verdicts", "measured", "evidence"):
        want, have = getattr(control, what), getattr(other, what)
        for item in sorted({*want, *have}):
            if want.get(item) != have.get(item):
                found.append(f"{what} of {item}: {have.get(item)} instead of {want.get(item)}")
    return found


def sweep_is_complete(results: Path) -> bool:
    """Whether a sweep below `results` says of itself that it has ended with all of its plan."""
    return any(
        _complete(json.loads(path.read_text(encoding="utf-8"))) for path in results.glob("*/sweep.json")
    )


def _complete(sweep: Mapping[str, Any]) -> bool:
    return sweep.get("finished_at") is not None and sweep.get("outcome") == "complete"


def record_breaks(results: Path, kills: Sequence[float], slack_s: float = 0.1) -> list[str]:
    """What trials.jsonl says that it must not: items lost or repeated, starts that no kill explains.

    `kills` are seconds since the epoch. A start without a verdict needs a kill between it and the next start
    of its item.
    """
    found = []
    folders = [path.parent for path in results.glob("*/sweep.json")]
    if len(folders) != 1:
        return [f"{len(folders)} sweep folders instead of one: {sorted(path.name for path in folders)}"]
    sweep = json.loads((folders[0] / "sweep.json").read_text(encoding="utf-8"))
    if not _complete(sweep):
        found.append(
            f"the sweep is not complete: {sweep.get('outcome')}, finished {sweep.get('finished_at')}"
        )
    log = lines(results, "trials.jsonl")
    over = {line["trial_id"] for line in log if line["event"] == "finished"}
    starts: dict[str, list[dict[str, Any]]] = {}
    for line in log:
        if line["event"] == "started":
            starts.setdefault(line["item_id"], []).append(line)
    verdicts = Counter(
        line["item_id"] for line in log if line["event"] == "finished" and line["status"] != "void"
    )
    found += [f"{item} has {count} verdicts" for item, count in verdicts.items() if count != 1]
    found += [f"{item} has no verdict" for item in starts if item not in verdicts]
    for item, begun in starts.items():
        for this, after in zip(begun, [*begun[1:], None], strict=True):
            if this["trial_id"] in over:
                continue
            low = _seconds(this["at"]) - slack_s
            high = _seconds(after["at"]) if after else float("inf")
            if not any(low <= at <= high for at in kills):
                found.append(f"{item}: trial {this['trial_id']} has no verdict and no kill explains it")
    return found


@dataclass(frozen=True)
class HostState:
    """What a host looks like when no sweep works on it."""

    found: dict[str, Any]
    files: tuple[str, ...]
    failed: tuple[str, ...]

    @classmethod
    def of(cls, target: Target, host: str) -> HostState:
        """Look now."""
        places = ("/run/treeline", "/var/lib/treeline", "/run/systemd/system", "/run/systemd/system.control")
        text = target.on(host, "find", *places, "-not", "-name", "__pycache__", check=False)
        failed = target.on(
            host, "systemctl", "list-units", "--failed", "--plain", "--no-legend", "--no-pager"
        )
        return cls(
            target.found_state(host),
            tuple(sorted(line for line in text.splitlines() if "__pycache__" not in line)),
            tuple(sorted(line.split()[0] for line in failed.splitlines() if line.strip())),
        )


def host_differs(before: HostState, after: HostState) -> list[str]:
    """How a host differs from what it was."""
    found = [
        f"found state: {key} is {after.found.get(key)!r} instead of {value!r}"
        for key, value in before.found.items()
        if after.found.get(key) != value
    ]
    for what, old, new in (("file", before.files, after.files), ("failed unit", before.failed, after.failed)):
        found += [f"{what} left on the host: {name}" for name in sorted({*new} - {*old})]
        # A reboot empties /run; what is missing there was for sweeps only.
        gone = sorted(name for name in {*old} - {*new} if not name.startswith("/run/"))
        found += [f"{what} gone from the host: {name}" for name in gone]
    return found


def processes_left(target: Target, host: str) -> list[str]:
    """Processes of a sweep that still run on the host, and those of a controller on this machine."""
    text = target.on(host, "ps", "-eo", "pid=,etimes=,args=", "-ww")
    found = [f"on the host: {line.strip()}" for line in text.splitlines() if is_ours(line)]
    return found + [f"on the controller: pid {pid}" for pid in naming(str(target.results))]


def is_ours(command_line: str) -> bool:
    """Whether a line of ps tells of a process of a sweep: a module, a restore, a trial."""
    return any(word in command_line for word in _OURS) or bool(_BARE.search(command_line.rstrip()))


def _verdict(line: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(line.get(name) for name in ("cell", "status", "class", "phase", "step", "effect", "kind"))


def _names(folder: Path | None) -> tuple[str, ...]:
    return () if folder is None else tuple(sorted(path.name for path in folder.iterdir()))


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()
