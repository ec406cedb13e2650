"""Take a host for a sweep, and give it back: what the module `treeline_found` does."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, Mapping, Optional, Sequence

from . import fence, install, lease, restore, snapshot, systemd, units
from .files import PATHS, Paths, forget_evidence, locked

# A sweep may wait for a restore that is nearly done; a long one is better named than waited for.
_RESTORE_WAIT_S = 60.0
_STOP_TIMEOUT_S = 200.0


class TakeoverError(Exception):
    """The host cannot be taken; the message names the unit in the way."""


def take(
    found_units: Sequence[str],
    trial_unit: str,
    lease_given: Optional[Mapping[str, Any]],
    *,
    ready_timeout_s: int,
    served_urls: Optional[Mapping[str, str]] = None,
    api_key_file: Optional[str] = None,
    dry: bool = False,
    paths: Paths = PATHS,
) -> dict[str, Any]:
    """Install the restore program, arm the lease, take the snapshot if there is none, stop what interferes.

    Returns {changed, snapshot, resumed, stopped}; with `dry` nothing is touched. The found units themselves
    are stopped later, by systemd, when the first trial starts. Raises LeaseError, SnapshotError,
    TakeoverError, StateFileError, KeyFileError or CommandError; an error before the snapshot leaves the host
    as it was.
    """
    wanted = lease.parse(lease_given)
    existing = snapshot.read(paths)
    if existing is not None:
        snapshot.check_same(existing, found_units, trial_unit)
    if dry:
        return {
            "changed": existing is None,
            "snapshot": existing,
            "resumed": existing is not None,
            "stopped": [],
        }
    with locked(paths.restore_lock, _RESTORE_WAIT_S):
        existing = snapshot.read(paths)
        if wanted is not None:
            lease.ensure_free(wanted, paths)
        changed = install.install(paths)
        # We hold the lock, so an attempt of an earlier lease's restore is waiting or between two tries.
        systemd.systemctl("stop", "--", lease.SERVICE, check=False)
        changed = fence.lower_fence(trial_unit, paths) or changed
        if wanted is not None:
            lease.arm(wanted, install.interpreter(), 2 * restore.total_bound(ready_timeout_s), paths)
        try:
            found = existing or snapshot.take(
                found_units,
                trial_unit,
                wanted.holder if wanted else {},
                ready_timeout_s,
                served_urls or {},
                api_key_file,
                paths,
            )
        except BaseException:
            if wanted is not None:
                lease.disarm(paths)
            raise
        with lease.Keeper(lease_given, paths):
            stopped = _stop_interfering(found)
    return {
        "changed": changed or existing is None or bool(stopped),
        "snapshot": snapshot.shown_to_others(found),
        "resumed": existing is not None,
        "stopped": stopped,
    }


def give_back(
    trial_unit: str,
    lease_given: Optional[Mapping[str, Any]],
    *,
    ready_timeout_s: Optional[int] = None,
    dry: bool = False,
    paths: Paths = PATHS,
) -> dict[str, Any]:
    """Run the restore program and return its outcome; where nothing was taken, only clean up.

    A caller with a lease does not touch a host that another run holds; one without (an operator) does.
    Raises StateFileError, SnapshotError, LeaseError or CommandError.
    """
    wanted = lease.parse(lease_given)
    holder = dict(wanted.holder) if wanted else None
    if wanted is not None:
        lease.ensure_free(wanted, paths)
    there = paths.snapshot.exists()
    if dry:
        return {
            "changed": there,
            "restored": not there,
            "reason": "check mode: nothing was done",
            "proven": [],
        }
    forget_evidence(paths)
    if not there:
        return asdict(restore.restore("play", trial_unit=trial_unit, holder=holder, paths=paths))
    install.install(paths)
    arguments = ["--by", "play", "--trial-unit", trial_unit]
    if ready_timeout_s:
        arguments += ["--ready-timeout", str(ready_timeout_s)]
    if holder:
        arguments += ["--holder", json.dumps(holder)]
    bound = 2 * restore.total_bound(ready_timeout_s or restore.DEFAULT_READY_TIMEOUT_S) + 60
    done = install.run_program(paths, *arguments, timeout_s=bound, check=False)
    try:
        outcome = json.loads(done.stdout)
    except ValueError:
        outcome = None
    if not isinstance(outcome, dict):
        said = (done.stderr or done.stdout).strip()
        raise systemd.CommandError("the restore program ended with status %d: %s" % (done.rc, said[-2000:]))
    return outcome


def _stop_interfering(found: Mapping[str, Any]) -> list[str]:
    """Stop the triggers, then the dependents, that were running; returns those that were still up.

    Triggers go first, or a client of a socket would start what is being stopped.
    """
    recorded = [entry["unit"] for entry in [*found["triggers"], *found["dependents"]] if entry["running"]]
    awake = [unit for unit in recorded if units.active_state(unit) not in ("inactive", "failed")]
    for unit in awake:
        if not units.stop(unit, _STOP_TIMEOUT_S):
            raise TakeoverError(
                "%s starts or needs a found service and did not stop within %d s; the host will be restored"
                % (unit, _STOP_TIMEOUT_S)
            )
    return awake
