"""Bring the found services back: one program for the play, for a rescue and for the lease.

Run as `python -m treeline_target.restore`. It stops the trial, starts what was running, proves it against the
snapshot, and only then deletes the snapshot and ends the lease. Running it again does no harm; two runs wait
for each other. The result is one JSON object on standard output; the exit status is 0 when everything that
was running is proven to run again (or nothing was to be done), 1 when not, 2 when called wrongly.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any, Mapping, Optional, Sequence

from . import clock, fence, lease, snapshot, systemd, units
from .bringup import BOUNDS, Bounds, Item, bring_up
from .files import PATHS, Paths, StateFileError, locked, remove, write_json

DEFAULT_READY_TIMEOUT_S = 1800


@dataclass
class Outcome:
    """What a restore did. `proven` and `problems` name units; `changed`: anything was to be done."""

    restored: bool
    reason: str
    changed: bool = False
    by: str = ""
    at: str = ""
    sweep_id: str = ""
    proven: list[dict[str, Any]] = field(default_factory=list)
    problems: list[dict[str, str]] = field(default_factory=list)
    left: list[dict[str, str]] = field(default_factory=list)
    fenced: bool = False
    duration_s: float = 0.0


def total_bound(ready_timeout_s: float, bounds: Bounds = BOUNDS) -> int:
    """Seconds after which a whole restore is over, waiting for another one not included."""
    return int(
        bounds.trial_stop
        + bounds.kill
        + bounds.stop
        + 4 * bounds.socket
        + ready_timeout_s
        + bounds.hangers_on
        + 60
    )


def restore(
    by: str,
    *,
    trial_unit: Optional[str] = None,
    holder: Optional[Mapping[str, Any]] = None,
    ready_timeout_s: Optional[float] = None,
    paths: Paths = PATHS,
    bounds: Bounds = BOUNDS,
) -> Outcome:
    """Restore this host. `by` is `lease`, `play` or `operator`; `holder` is the caller's, if it has one.

    `trial_unit` is stopped and removed even where no snapshot exists. Raises StateFileError, SnapshotError or
    CommandError when the state cannot be read or systemd does not answer; then nothing was deleted.
    """
    started = time.monotonic()
    wait = total_bound(ready_timeout_s or DEFAULT_READY_TIMEOUT_S, bounds)
    with locked(paths.restore_lock, wait):
        if by == "lease" and not lease.claim_expiry(paths):
            return Outcome(True, "the lease was renewed in the meantime; nothing was touched", by=by)
        found = snapshot.read(paths)
        if found is None:
            outcome = _clean_up(trial_unit, paths, bounds)
        else:
            outcome = _restore_from(found, by, holder, ready_timeout_s, paths, bounds)
        outcome.by = by
        outcome.at = clock.utc_now()
        outcome.duration_s = round(time.monotonic() - started, 3)
        # On file before the snapshot goes: whoever finds no snapshot can read what became of it.
        if outcome.changed or not outcome.restored:
            _keep_on_file(outcome, paths)
        if found is not None and outcome.restored:
            _forget(str(found["trial_unit"]), paths)
        return outcome


def _keep_on_file(outcome: Outcome, paths: Paths) -> None:
    """Write the outcome down; a disk that is full is no reason to keep a host whose services are proven."""
    try:
        write_json(paths.last_restore, asdict(outcome))
    except StateFileError as error:
        outcome.reason += " (this is not on file: %s)" % error


def _clean_up(trial_unit: Optional[str], paths: Paths, bounds: Bounds) -> Outcome:
    """No snapshot: nothing was stopped by us, so only a trial unit and a lease can be left over."""
    changed = False
    if trial_unit:
        if units.active_state(trial_unit) not in ("inactive", "failed"):
            _stop_trial(trial_unit, bounds)
            changed = True
        changed = _remove_trial(trial_unit, paths) or changed
    changed = lease.disarm(paths) or changed
    return Outcome(True, "no snapshot on this host: there is nothing to restore", changed=changed)


def _restore_from(
    found: Mapping[str, Any],
    by: str,
    holder: Optional[Mapping[str, Any]],
    ready_timeout_s: Optional[float],
    paths: Paths,
    bounds: Bounds,
) -> Outcome:
    trial_unit = str(found["trial_unit"])
    outcome = Outcome(False, "", changed=True, sweep_id=str(found.get("sweep_id", "")))
    trial_down = _stop_trial(trial_unit, bounds)
    if _must_fence(by, holder, paths):
        outcome.fenced = _fence(trial_unit, outcome, paths)
        # Whoever started it again before the fence stood is stopped now, for good.
        trial_down = _stop_trial(trial_unit, bounds)
    items = [Item(entry, "found") for entry in found["found"] if entry["running"]]
    items += [Item(entry, "dependent") for entry in found["dependents"] if entry["running"]]
    items += [Item(entry, "trigger") for entry in found["triggers"] if entry["running"]]
    timeout = float(ready_timeout_s or found.get("ready_timeout_s") or DEFAULT_READY_TIMEOUT_S)
    bring_up(items, found.get("api_key_file"), timeout, bounds)
    outcome.left = [
        {"unit": entry["unit"], "state": entry["active_state"], "load_state": entry.get("load_state", "")}
        for entry in found["found"]
        if not entry["running"]
    ]
    _report(outcome, items)
    if not trial_down:
        outcome.problems.append({"unit": trial_unit, "why": "the trial unit does not stop, even when killed"})
    outcome.restored = not outcome.problems
    outcome.reason = _reason(outcome, paths)
    return outcome


def _forget(trial_unit: str, paths: Paths) -> None:
    """Take away what the sweep put on this host; the snapshot last but for the lease, which guards it."""
    _remove_trial(trial_unit, paths)
    remove(paths.snapshot)
    lease.disarm(paths)


def _must_fence(by: str, holder: Optional[Mapping[str, Any]], paths: Paths) -> bool:
    """Whether some other run may still believe that it holds this host."""
    if by == "lease":
        return True
    held = lease.read_holder(paths)
    if held is None:
        return False
    return holder is None or not lease.same_holder(holder, held["holder"])


def _stop_trial(trial_unit: str, bounds: Bounds) -> bool:
    """Stop the trial, by force where it does not end; whatever comes of it, the found units are started."""
    try:
        return units.stop(trial_unit, bounds.trial_stop) or units.kill(trial_unit, bounds.kill)
    except systemd.CommandError:
        return False


def _fence(trial_unit: str, outcome: Outcome, paths: Paths) -> bool:
    try:
        fence.raise_fence(trial_unit, paths)
    except (StateFileError, systemd.CommandError) as error:
        outcome.problems.append({"unit": trial_unit, "why": "it could not be masked: %s" % error})
        return False
    return True


def _remove_trial(trial_unit: str, paths: Paths) -> bool:
    """Delete the trial's unit file and let systemd forget it; returns whether the file was there."""
    was_there = remove(paths.units / trial_unit)
    systemd.systemctl("reset-failed", "--", trial_unit, check=False)
    if was_there:
        systemd.systemctl("daemon-reload")
    return was_there


def _report(outcome: Outcome, items: Sequence[Item]) -> None:
    for item in items:
        if item.stands:
            outcome.proven.append(
                {"unit": item.unit, "role": item.role, "state": item.look.why, **item.proof}
            )
        else:
            outcome.problems.append({"unit": item.unit, "role": item.role, "why": item.look.why})


def _reason(outcome: Outcome, paths: Paths) -> str:
    if outcome.restored:
        names = ", ".join(entry["unit"] for entry in outcome.proven)
        return (
            "running again as found: %s" % names if names else "no found unit was running; none was started"
        )
    return (
        "not restored: %s. The snapshot stays at %s; once this is mended, run the restore playbook again "
        "(or, to accept what runs now, delete that file first)"
        % (
            "; ".join("%s: %s" % (entry["unit"], entry["why"]) for entry in outcome.problems),
            paths.snapshot,
        )
    )


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run the program; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m treeline_target.restore", description="Bring the services back that a sweep stopped."
    )
    parser.add_argument("--by", choices=("lease", "play", "operator"), default="operator", help="who asks")
    parser.add_argument("--trial-unit", help="also stop and remove this trial unit when there is no snapshot")
    parser.add_argument("--holder", help="the caller's lease holder, as a JSON object")
    parser.add_argument("--ready-timeout", type=float, help="seconds that a service may take to be ready")
    parser.add_argument("--check", action="store_true", help="only show that the program can run")
    options = parser.parse_args(arguments)
    if options.check:
        return 0
    try:
        outcome = restore(
            options.by,
            trial_unit=options.trial_unit,
            holder=json.loads(options.holder) if options.holder else None,
            ready_timeout_s=options.ready_timeout,
        )
    except (StateFileError, snapshot.SnapshotError, systemd.CommandError, lease.LeaseError) as error:
        outcome = Outcome(False, "not restored: %s" % error, by=options.by, at=clock.utc_now())
    json.dump(asdict(outcome), sys.stdout)
    sys.stdout.write("\n")
    return 0 if outcome.restored else 1


if __name__ == "__main__":
    sys.exit(main())
