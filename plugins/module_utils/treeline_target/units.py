"""Start, stop and look at units, every wait bounded; find what hangs on a unit."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Mapping, Optional, Sequence

from . import systemd

POLL_S = 0.2
_SUFFIXES = (".service", ".socket", ".timer", ".path", ".target", ".scope", ".slice", ".mount", ".automount")
# Whoever stands in one of these stops when the unit stops.
_FOLLOWERS = ("RequiredBy", "RequisiteOf", "BoundBy", "ConsistsOf")
RELATIONS = (*_FOLLOWERS, "TriggeredBy", "UpheldBy")


def full_name(name: str) -> str:
    """The unit's whole name; a bare one is a service."""
    return name if name.endswith(_SUFFIXES) else name + ".service"


@dataclass(frozen=True)
class Related:
    """What hangs on the found units, in the order found: nearest first.

    `dependents` stop with them; `triggers` start them, or a dependent that would; `upholders` maps a unit to
    those that would start it again at once.
    """

    dependents: tuple[str, ...]
    triggers: tuple[str, ...]
    upholders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def related(found: Sequence[str], ask: Optional[Callable[[str], Mapping[str, str]]] = None) -> Related:
    """Walk from the found units to everything that stops with them or starts them, however far.

    `ask` returns the RELATIONS properties of a unit (space-separated names); by default systemd is asked.
    """
    look = ask or (lambda unit: systemd.show(unit, RELATIONS))
    dependents: list[str] = []
    triggers: list[str] = []
    upholders: dict[str, tuple[str, ...]] = {}
    seen = set(found)
    queue = list(found)
    while queue:
        unit = queue.pop(0)
        relations = look(unit)
        held_up = tuple(relations.get("UpheldBy", "").split())
        if held_up:
            upholders[unit] = held_up
        followers = [name for key in _FOLLOWERS for name in relations.get(key, "").split()]
        starters = relations.get("TriggeredBy", "").split()
        for names, into in ((followers, dependents), (starters, triggers)):
            for name in names:
                if name not in seen:
                    seen.add(name)
                    into.append(name)
                    queue.append(name)
    return Related(tuple(dependents), tuple(triggers), upholders)


def active_state(unit: str) -> str:
    """ActiveState of `unit` now (`inactive` for one that does not exist)."""
    return systemd.show(unit, ("ActiveState",)).get("ActiveState", "inactive")


def stop(unit: str, timeout_s: float) -> bool:
    """Ask for a stop and wait for its end; False when it is still not down after `timeout_s` seconds."""
    systemd.systemctl("stop", "--no-block", "--", unit, check=False)
    return _wait_down(unit, timeout_s)


def kill(unit: str, timeout_s: float) -> bool:
    """SIGKILL every process of `unit`; False when it is still not down after `timeout_s` seconds."""
    done = systemd.systemctl("kill", "--kill-whom=all", "--signal=KILL", "--", unit, check=False)
    if done.rc != 0:
        # Before systemd 252 the option was called --kill-who.
        systemd.systemctl("kill", "--kill-who=all", "--signal=KILL", "--", unit, check=False)
    return _wait_down(unit, timeout_s)


def start(unit: str) -> None:
    """Ask for a start and return at once; a failed state and the start limit are cleared first.

    A target is started alone: its members that were stopped on purpose stay stopped.
    """
    systemd.systemctl("reset-failed", "--", unit, check=False)
    alone = ("--job-mode=ignore-dependencies",) if unit.endswith(".target") else ()
    systemd.systemctl("start", "--no-block", *alone, "--", unit, check=False)


def start_now(unit: str, timeout_s: float) -> bool:
    """Start `unit` and wait for the job's end, for a socket or the like; whether it is active then.

    Raises CommandError when the job outlasts `timeout_s` seconds.
    """
    systemd.systemctl("reset-failed", "--", unit, check=False)
    systemd.systemctl("start", "--", unit, check=False, timeout=timeout_s)
    return active_state(unit) == "active"


def argv_of(pid: int, proc: Path = Path("/proc")) -> Optional[list[str]]:
    """The command line of a process; None when it is gone or has none."""
    try:
        raw = (proc / str(pid) / "cmdline").read_bytes()
    except OSError:
        return None
    if not raw:
        return None
    return [word.decode("utf-8", "replace") for word in raw.rstrip(b"\0").split(b"\0")]


def _wait_down(unit: str, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while active_state(unit) not in ("inactive", "failed"):
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_S)
    return True
