"""Start what was running and watch it until it stands as it was found, within a bound."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Sequence

from . import prove, systemd, units


@dataclass(frozen=True)
class Bounds:
    """How long each part of a restore may take, in seconds, and how often a unit is started."""

    trial_stop: float = 75.0
    kill: float = 15.0
    stop: float = 100.0
    socket: float = 20.0
    differs: float = 30.0
    # Doubles with every start: memory of a killed GPU process can linger for more than 30 s.
    restart_pause: float = 5.0
    starts: int = 5
    hangers_on: float = 120.0
    poll: float = 0.5


BOUNDS = Bounds()


def _not_looked_at() -> prove.Look:
    return prove.Look(prove.WAIT, "not looked at yet")


@dataclass
class Item:
    """A unit that has to run again, and how far that is. `role`: found, dependent or trigger."""

    entry: Mapping[str, Any]
    role: str
    starts: int = 0
    next_start: float = 0.0
    differs_since: Optional[float] = None
    proven_pid: Optional[int] = None
    proof: Mapping[str, str] = field(default_factory=dict)
    look: prove.Look = field(default_factory=_not_looked_at)
    given_up: bool = False

    @property
    def unit(self) -> str:
        """The unit's name."""
        return str(self.entry["unit"])

    @property
    def stands(self) -> bool:
        """Whether the last look proved it."""
        return self.look.verdict == prove.OK

    @property
    def settled(self) -> bool:
        """Whether waiting longer is of no use."""
        return self.stands or self.given_up


def bring_up(items: Sequence[Item], key_file: Optional[str], timeout_s: float, bounds: Bounds) -> None:
    """Start and look at the units until all stand at once, the rest are given up, or time is over.

    Sockets come first, since systemd refuses one whose service runs; then the found units; what hangs on them
    follows as soon as they run, as at boot, and has `bounds.hangers_on` seconds from their proof on. The
    outcome stands in each item; nothing is raised for a unit that does not come up.
    """
    for item in items:
        if item.unit.endswith(".socket"):
            _start_socket(item.unit, bounds)
    found = [item for item in items if item.role == "found"]
    hanging = [item for item in items if item.role != "found"]
    deadline = time.monotonic() + timeout_s
    found_settled = False
    while True:
        for item in found:
            _tend(item, key_file, bounds)
        if all(item.given_up or item.look.verdict != prove.DOWN for item in found):
            for item in hanging:
                _tend(item, key_file, bounds)
        if all(item.settled for item in items):
            return
        if not found_settled and all(item.settled for item in found):
            found_settled = True
            deadline = time.monotonic() + bounds.hangers_on
        if time.monotonic() >= deadline:
            return
        time.sleep(bounds.poll)


def _start_socket(socket: str, bounds: Bounds) -> None:
    """Start a socket unit while its service is down.

    Where the service came up without its socket, it goes down for a moment: served through the socket is how
    it was found. The loop starts it again.
    """
    try:
        if units.active_state(socket) == "active" or units.start_now(socket, bounds.socket):
            return
        for service in systemd.show(socket, ("Triggers",)).get("Triggers", "").split():
            if systemd.is_running_state(units.active_state(service)):
                units.stop(service, bounds.stop)
        units.start_now(socket, bounds.socket)
    except systemd.CommandError:
        # The services must be started whatever becomes of a socket; the loop looks at it again.
        return


def _tend(item: Item, key_file: Optional[str], bounds: Bounds) -> None:
    """Look at one unit, and start it when it is down. A systemd that does not answer is asked again later."""
    try:
        if item.role == "found":
            item.look, pid = prove.look_at_found(item.entry, key_file, item.proven_pid)
            item.proven_pid = (pid or None) if item.stands else None
            item.proof = item.look.proof or item.proof
        else:
            item.look = prove.look_at_hanger_on(item.entry, item.starts > 0)
        _act(item, bounds)
    except systemd.CommandError as error:
        item.look = prove.Look(prove.WAIT, str(error))


def _act(item: Item, bounds: Bounds) -> None:
    """Start what is down, a few times; give up on what cannot run, or runs differently for too long."""
    now = time.monotonic()
    verdict = item.look.verdict
    if verdict == prove.DIFFERS:
        # A process may rewrite its command line, or answer before it is quite up, for a moment.
        item.differs_since = now if item.differs_since is None else item.differs_since
        item.given_up = now - item.differs_since > bounds.differs
        return
    item.differs_since = None
    if verdict == prove.DOWN and now >= item.next_start:
        if item.starts < bounds.starts:
            item.next_start = now + bounds.restart_pause * 2**item.starts
            item.starts += 1
            units.start(item.unit)
        else:
            item.given_up = True
    elif verdict == prove.HOPELESS:
        item.given_up = True
    elif verdict == prove.OK:
        item.given_up = False
