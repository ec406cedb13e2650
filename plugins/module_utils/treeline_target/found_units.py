"""Checks of the found units: can they be stopped without harm, and brought back as they are."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Mapping, Optional, Protocol, Sequence
from urllib.parse import urlsplit

from . import clock, snapshot, systemd, traffic, units

# A file may be stamped just after the restart that it was written for.
_MTIME_SLACK_S = 2.0
# What a stop may take of the lease; the rest is for the restart of the first trial around it.
_LEASE_SHARE = 0.9
_RESTORE_HINT = "restart %s (or undo the change) before the sweep, so that what runs can be brought back"


class Findings(Protocol):
    """Where a check puts what it finds."""

    problems: list[str]
    notes: list[str]


def port_of(url: Optional[str]) -> Optional[int]:
    """The port in a service's address."""
    try:
        return urlsplit(url).port if url else None
    except ValueError:
        return None


def names_of(found_units: Sequence[str]) -> set[str]:
    """All names of the found units: aliases, and what triggers them (a socket's process is PID 1's)."""
    names = set(found_units)
    for unit in found_units:
        shown = systemd.show(unit, ("Id", "Names", "TriggeredBy"))
        names.update(word for key in ("Id", "Names", "TriggeredBy") for word in shown.get(key, "").split())
    return names


def check_restorable(entry: Mapping[str, Any], problems: list[str]) -> None:
    """A running unit that a restart would not bring back as it runs now is a problem."""
    unit = entry["unit"]
    if not entry["running"]:
        return
    shown = systemd.show(unit, ("Transient", "NeedDaemonReload", "ExecMainStartTimestampMonotonic"))
    if shown.get("Transient") == "yes":
        problems.append(
            "%s is a transient unit: it would be gone once stopped; make it a unit file, or stop it" % unit
        )
    hint = _RESTORE_HINT % unit
    if shown.get("NeedDaemonReload") == "yes":
        problems.append("the files of %s differ from what systemd has loaded; %s" % (unit, hint))
    for path in _changed_since_start(entry, shown.get("ExecMainStartTimestampMonotonic", "")):
        problems.append("%s was changed after the running %s was started; %s" % (path, unit, hint))


def check_stops_in_time(entry: Mapping[str, Any], lease_s: Optional[int], problems: list[str]) -> None:
    """A unit that may take as long to stop as the lease lasts is a problem.

    Nothing renews the lease while the first trial's restart waits for that stop: it would fire meanwhile.
    """
    if lease_s is None or not entry["running"]:
        return
    unit = entry["unit"]
    shown = systemd.show(unit, ("TimeoutStopUSec",)).get("TimeoutStopUSec", "")
    stop_s = systemd.seconds(shown)
    if stop_s is not None and stop_s >= lease_s * _LEASE_SHARE:
        problems.append(
            "%s may take %s to stop (its TimeoutStopSec), which must be less than %d %% of the lease, but "
            "the lease is %d s; raise treeline_lease_s, or lower the unit's TimeoutStopSec"
            % (unit, "for ever" if shown == "infinity" else shown, 100 * _LEASE_SHARE, lease_s)
        )


def check_upheld(
    upholders: Mapping[str, Sequence[str]], found_units: Sequence[str], problems: list[str]
) -> None:
    """A unit that another one holds up would come back at once and end every trial."""
    for unit, holders in upholders.items():
        active = [
            name
            for name in holders
            if name not in found_units and systemd.is_running_state(units.active_state(name))
        ]
        if active:
            problems.append(
                "%s is held up by %s (Upholds=), which starts it again whenever it stops; stop that unit for "
                "the sweep, or put it into treeline_found_units" % (unit, ", ".join(active))
            )


def check_traffic(
    entry: Mapping[str, Any], api_key_file: Optional[str], interrupt_traffic: bool, findings: Findings
) -> None:
    """Requests in work or waiting at a found service are a problem, unless they may be interrupted."""
    unit, url = entry["unit"], entry["url"]
    if url is None:
        findings.notes.append("%s: whether it has requests is not available (no address known)" % unit)
        return
    argv = snapshot.process_argv(systemd.show(unit, ("MainPID",)))
    counted = traffic.ask(url, snapshot.api_key(argv, api_key_file))
    if not counted.known:
        findings.notes.append("%s: whether it has requests is not available (%s)" % (unit, counted.note))
    elif counted.busy:
        text = "%s at %s has %s running and %s queued requests" % (
            unit,
            url,
            counted.running,
            counted.queued,
        )
        if interrupt_traffic:
            findings.notes.append("%s; they are interrupted (interrupt_traffic=true)" % text)
        else:
            findings.problems.append(
                "%s; drain it at the router and try again, or interrupt them with -e interrupt_traffic=true"
                % text
            )


def running_in(recorded: Mapping[str, Any]) -> list[str]:
    """Units that a snapshot saw running: found ones, what needs them, what starts them."""
    entries = [*recorded["found"], *recorded["dependents"], *recorded["triggers"]]
    return [entry["unit"] for entry in entries if entry["running"]]


def running_now(found: Sequence[Mapping[str, Any]], hanging: units.Related) -> list[str]:
    """Units that a sweep would take down now."""
    others = [
        unit
        for unit in (*hanging.dependents, *hanging.triggers)
        if systemd.is_running_state(units.active_state(unit))
    ]
    return [entry["unit"] for entry in found if entry["running"]] + others


def _changed_since_start(entry: Mapping[str, Any], started_monotonic_usec: str) -> list[str]:
    """Files of the unit that were written after its main process started."""
    if not started_monotonic_usec.isdigit() or started_monotonic_usec == "0":
        return []
    started = time.time() - (clock.monotonic() - int(started_monotonic_usec) / 1e6)
    files = [entry["fragment"], *entry["drop_ins"], *entry["environment_files"]]
    changed = []
    for file in files:
        # Settings made at run time (systemctl set-property) are in force without a restart.
        if file is None or "/system.control/" in file["path"]:
            continue
        try:
            if Path(file["path"]).stat().st_mtime > started + _MTIME_SLACK_S:
                changed.append(file["path"])
        except OSError:
            continue
    return changed
