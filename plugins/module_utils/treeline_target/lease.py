"""The lease: a timer on the target that brings the found services back when nobody renews it.

A sweep arms it before it stops anything. Every target module renews it on entry, and long ones while
they run. When the controller dies, the timer fires and the restore program runs without it. A lease that
has fired, was given up or belongs to another run is never renewed: the caller is told instead, so that
a late module cannot stop a service that has just been restored.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Mapping, Optional

from . import clock, systemd
from .caller import Caller
from .files import PATHS, Paths, StateFileError, locked, read_json, remove, write_atomic, write_json
from .lease_units import SERVICE, TIMER, service_text, timer_text

MIN_SECONDS = 2
LOCK_TIMEOUT_S = 20.0
# A timer never fires early, but the file is written before the timer starts and clocks are floats.
_EXPIRY_SLACK_S = 0.5
# How often a keeper looks whether its caller is still there.
_LOOK_S = 5.0
_HOLDER_KEYS = ("sweep_id", "host", "boot_id", "pid", "pid_start")


class LeaseError(Exception):
    """The lease cannot be used; the message says who holds it or when it ended, and what to do."""


class LeaseLostError(LeaseError):
    """The lease fired, was given up, or belongs to another run: work on this host must stop."""


@dataclass(frozen=True)
class Lease:
    """What a module is given: how long the lease lasts (seconds) and who holds it.

    `replaces` names the holder whose live lease may be taken over, because its process is known to be gone.
    """

    seconds: int
    holder: Mapping[str, Any]
    replaces: Optional[Mapping[str, Any]] = None


def parse(lease: Optional[Mapping[str, Any]]) -> Optional[Lease]:
    """The module argument `lease` as a value; None stays None. Raises LeaseError on a malformed one."""
    if not lease:
        return None
    try:
        seconds = int(lease.get("seconds", ""))
    except (TypeError, ValueError):
        seconds = 0
    holder = lease.get("holder")
    if seconds < MIN_SECONDS:
        raise LeaseError(
            "lease.seconds: %r is not a whole number >= %d" % (lease.get("seconds"), MIN_SECONDS)
        )
    if not isinstance(holder, Mapping) or not holder.get("sweep_id"):
        raise LeaseError("lease.holder: a mapping with `sweep_id` and the controller's identity is needed")
    replaces = lease.get("replaces")
    return Lease(seconds, dict(holder), dict(replaces) if isinstance(replaces, Mapping) else None)


def same_holder(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two holders are the same controller process in the same sweep (values compared as text)."""
    return all(str(one.get(key, "")) == str(other.get(key, "")) for key in _HOLDER_KEYS)


def may_take_over(lease: Lease, current: Mapping[str, Any]) -> bool:
    """Whether `lease` may replace the live lease of `current`.

    A resumed sweep on the same controller may: its results folder is locked there, so the earlier process
    is known to be gone. Any other holder must be named in `lease.replaces`.
    """
    if same_holder(lease.holder, current):
        return True
    if lease.replaces is not None and same_holder(lease.replaces, current):
        return True
    return all(str(lease.holder.get(key, "")) == str(current.get(key, "")) for key in ("sweep_id", "host"))


def describe(holder: Mapping[str, Any]) -> str:
    """One readable phrase for a holder."""
    return "sweep %s of controller %s (pid %s)" % (
        holder.get("sweep_id", "?"),
        holder.get("host", "?"),
        holder.get("pid", "?"),
    )


def read_fired(paths: Paths = PATHS) -> Optional[dict[str, Any]]:
    """The mark a fired lease left ({at, holder, ...}), or None: since then every trial here is void."""
    return read_json(paths.lease_fired)


def fired_message(fired: Mapping[str, Any]) -> str:
    """What a late module says once the lease has fired."""
    return (
        "the lease expired at %s and the found service was restored; this trial is void. "
        "Run the sweep again to resume it" % fired.get("at", "an unknown time")
    )


def read_holder(paths: Paths = PATHS) -> Optional[dict[str, Any]]:
    """The lease of this host: {holder, armed_at, seconds, expires_boottime, seconds_left}, or None.

    `seconds_left` <= 0: it has ended and its restore is due or under way. Raises StateFileError.
    """
    held = read_json(paths.lease)
    if held is None:
        return None
    held["seconds_left"] = round(float(held.get("expires_boottime", 0)) - clock.boottime(), 3)
    return held


def arm(
    lease: Lease,
    interpreter: str,
    restore_bound_s: int,
    paths: Paths = PATHS,
) -> None:
    """Take the lease: write its units, start its timer, note the holder; forgets an earlier fired mark.

    Raises LeaseError when another run holds a live lease, StateFileError or CommandError when it cannot
    be set.
    """
    with locked(paths.lease_lock, LOCK_TIMEOUT_S):
        ensure_free(lease, paths)
        remove(paths.lease_fired)
        write_atomic(paths.units / TIMER, timer_text(lease.seconds), 0o644)
        write_atomic(
            paths.units / SERVICE,
            service_text(interpreter, str(paths.library), restore_bound_s),
            0o644,
        )
        systemd.systemctl("daemon-reload")
        # Failed attempts of an earlier lease must not count against this one's start limit.
        systemd.systemctl("reset-failed", SERVICE, check=False)
        _start(lease, paths)


def ensure_free(lease: Lease, paths: Paths = PATHS) -> None:
    """Raise LeaseError while another run holds a live lease on this host."""
    held = read_holder(paths)
    if held is not None and held["seconds_left"] > 0 and not may_take_over(lease, held["holder"]):
        raise LeaseError(
            "this host is leased to %s for another %d s; wait for that sweep to end, or end it and run "
            "the restore playbook on this host" % (describe(held["holder"]), held["seconds_left"])
        )


def rearm(lease: Optional[Mapping[str, Any]], paths: Paths = PATHS) -> None:
    """Renew the lease for its full length; no lease given = nothing to do.

    Raises LeaseLostError when it has fired, was given up, or another run holds it; LeaseError when malformed;
    StateFileError or CommandError when the timer cannot be restarted.
    """
    wanted = parse(lease)
    if wanted is None:
        return
    with locked(paths.lease_lock, LOCK_TIMEOUT_S):
        check(wanted, paths)
        _start(wanted, paths)


def check(lease: Lease, paths: Paths = PATHS) -> None:
    """Raise LeaseLostError unless `lease` is the one in force on this host."""
    fired = read_fired(paths)
    if fired is not None:
        raise LeaseLostError(fired_message(fired))
    held = read_holder(paths)
    if held is None:
        raise LeaseLostError(
            "no lease is armed on this host (it was restored by another run, or it has rebooted); "
            "run the sweep again to resume it"
        )
    if not same_holder(lease.holder, held["holder"]):
        raise LeaseLostError("this host is now leased to %s" % describe(held["holder"]))


def _start(lease: Lease, paths: Paths) -> None:
    """Write the lease file, then restart the timer: the file never outlasts the timer."""
    write_json(
        paths.lease,
        {
            "holder": dict(lease.holder),
            "armed_at": clock.utc_now(),
            "expires_boottime": clock.boottime() + lease.seconds,
            "seconds": lease.seconds,
        },
    )
    if systemd.systemctl("restart", TIMER, check=False).rc != 0:
        # Whatever was in the way, a dead timer is the one thing that must not be left behind.
        systemd.systemctl("reset-failed", TIMER, check=False)
        systemd.systemctl("start", TIMER)


def claim_expiry(paths: Paths = PATHS) -> bool:
    """Called by the restore that the timer started: mark the lease as fired, unless it was renewed meanwhile.

    Returns False when the lease is live again, or given up with nothing left to restore.
    """
    with locked(paths.lease_lock, LOCK_TIMEOUT_S):
        held = read_holder(paths)
        if read_fired(paths) is not None:
            return True
        if held is not None and held["seconds_left"] > _EXPIRY_SLACK_S:
            _keep_ticking()
            return False
        if held is None and not paths.snapshot.exists():
            return False
        try:
            write_json(
                paths.lease_fired,
                {
                    "at": clock.utc_now(),
                    "boottime": clock.boottime(),
                    "monotonic": clock.monotonic(),
                    "holder": held["holder"] if held else {},
                },
                0o644,
            )
        except StateFileError:
            # A new name for the lease itself needs no room, and a full /run must not keep a host down.
            if held is None:
                raise
            paths.lease.replace(paths.lease_fired)
        return True


def _keep_ticking() -> None:
    """Start a timer that does not wait: a renewal that broke off must not leave a lease without end."""
    if systemd.show(TIMER, ("SubState",)).get("SubState") != "waiting":
        systemd.systemctl("restart", TIMER)


def disarm(paths: Paths = PATHS) -> bool:
    """Stop the timer and forget the lease; returns whether one was armed. A fired mark stays.

    The service is left alone: it may be the one that is running this.
    """
    with locked(paths.lease_lock, LOCK_TIMEOUT_S):
        was = remove(paths.lease)
        timer = paths.units / TIMER
        if timer.exists():
            systemd.systemctl("stop", TIMER, check=False)
        if remove(timer) | remove(paths.units / SERVICE):
            was = True
            systemd.systemctl("daemon-reload")
        return was


class Keeper:
    """Renews a lease on entry and every third of its length until the block ends or its caller is gone.

    A module whose connection to the controller is gone renews no more: the lease ends at most its own length
    later, whatever the module still waits for.

    Usage: `with Keeper(module.params["lease"]) as keeper: ...` and look at `keeper.lost` in any wait: once it
    holds a text, the lease is gone and the work must stop. Without a lease it does nothing.
    """

    def __init__(
        self,
        lease: Optional[Mapping[str, Any]],
        paths: Paths = PATHS,
        caller: Optional[Caller] = None,
    ) -> None:
        self._raw = lease
        self._caller = caller
        self._paths = paths
        self._lease = parse(lease)
        self._stop = threading.Event()
        self._thread: Optional[threading.Thread] = None
        self._lost: Optional[str] = None

    @property
    def lost(self) -> Optional[str]:
        """Why the lease is gone, or None while it is held."""
        return self._lost

    def __enter__(self) -> Keeper:
        rearm(self._raw, self._paths)
        if self._lease is not None:
            self._caller = self._caller or Caller()
            self._thread = threading.Thread(target=self._renew, name="lease-keeper", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=systemd.DEFAULT_TIMEOUT_S)

    def _renew(self) -> None:
        lease, caller = self._lease, self._caller
        if lease is None or caller is None:
            return
        third = lease.seconds / 3
        due = time.monotonic() + third
        while not self._stop.wait(max(0.0, min(_LOOK_S, due - time.monotonic()))):
            gone = caller.gone()
            if gone is not None:
                self._lost = "%s; the lease is renewed no more, and this trial is void" % gone
                return
            if time.monotonic() < due:
                continue
            try:
                rearm(self._raw, self._paths)
                due = time.monotonic() + third
            except LeaseLostError as error:
                self._lost = str(error)
                return
            except Exception:
                # A busy systemd is no reason to give up while the lease still runs; if it never answers,
                # the timer fires and the next attempt says so.
                due = time.monotonic() + min(2.0, lease.seconds / 6)
