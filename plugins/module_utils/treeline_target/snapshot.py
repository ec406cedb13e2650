"""The snapshot: what was found on the target before a sweep stopped anything.

Taken once, before the first stop, and never again while it exists; only a proven restore deletes it.
Secrets are not in it: command lines are kept with secrets hidden, beside a hash of the whole.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence

from . import clock, http, redact, served, systemd, units
from .files import PATHS, Paths, StateFileError, read_json, write_json

SCHEMA_VERSION = 1
PROBE_TIMEOUT_S = 25.0
_PROPERTIES = (
    "Id",
    "LoadState",
    "ActiveState",
    "SubState",
    "UnitFileState",
    "FragmentPath",
    "DropInPaths",
    "EnvironmentFiles",
    "MainPID",
    "InvocationID",
)


class SnapshotError(Exception):
    """The snapshot of this host cannot be used for what was asked; the message says why and what to do."""


def read(paths: Paths = PATHS) -> Optional[dict[str, Any]]:
    """The snapshot of this host, or None. Raises SnapshotError when the file is none we can read."""
    try:
        found = read_json(paths.snapshot)
    except StateFileError as error:
        raise SnapshotError(str(error)) from None
    if found is None:
        return None
    if found.get("schema_version") != SCHEMA_VERSION or not isinstance(found.get("found"), list):
        raise SnapshotError(
            "%s was written by another version of Treeline (schema %r); restore this host with that version"
            % (paths.snapshot, found.get("schema_version"))
        )
    return found


def take(
    found_units: Sequence[str],
    trial_unit: str,
    holder: Mapping[str, Any],
    ready_timeout_s: int,
    served_urls: Mapping[str, str],
    api_key_file: Optional[str] = None,
    paths: Paths = PATHS,
) -> dict[str, Any]:
    """Look at the found units and what hangs on them, write it down for good, and return it.

    Raises SnapshotError when one exists already, StateFileError, CommandError or KeyFileError.
    """
    if read(paths) is not None:
        raise SnapshotError("%s exists; a snapshot is never retaken" % paths.snapshot)
    hanging = units.related(found_units)
    record = {
        "schema_version": SCHEMA_VERSION,
        "taken_at": clock.utc_now(),
        "boot_id": clock.boot_id(),
        "sweep_id": str(holder.get("sweep_id", "")),
        "holder": dict(holder),
        "trial_unit": trial_unit,
        "ready_timeout_s": ready_timeout_s,
        "api_key_file": api_key_file,
        "found": [look(unit, served_urls.get(unit), api_key_file) for unit in found_units],
        "dependents": [_state(unit) for unit in hanging.dependents if unit != trial_unit],
        "triggers": [_state(unit) for unit in hanging.triggers if unit != trial_unit],
    }
    write_json(paths.snapshot, record)
    return record


def look(unit: str, configured_url: Optional[str], api_key_file: Optional[str] = None) -> dict[str, Any]:
    """One found unit as it is now: files with hashes, enablement, state, command line, what it serves."""
    shown = systemd.show(unit, _PROPERTIES)
    running = systemd.is_running_state(shown.get("ActiveState", ""))
    argv = process_argv(shown) if running else None
    url = served.base_url(argv or (), configured_url)
    probe = served.Probe(False, None)
    if running and url is not None:
        probe = served.probe(url, PROBE_TIMEOUT_S, api_key(argv, api_key_file))
    return {
        "unit": unit,
        "id": shown.get("Id", unit),
        "load_state": shown.get("LoadState", ""),
        "enabled": shown.get("UnitFileState", ""),
        "active_state": shown.get("ActiveState", ""),
        "sub_state": shown.get("SubState", ""),
        "invocation_id": shown.get("InvocationID", ""),
        "running": running,
        "fragment": _hashed(shown.get("FragmentPath", "")),
        "drop_ins": [_hashed(path) for path in shown.get("DropInPaths", "").split()],
        "environment_files": [_hashed(path) for path in environment_files(shown.get("EnvironmentFiles", ""))],
        "argv": redact.argv(argv) if argv else None,
        "argv_sha256": redact.digest(argv) if argv else None,
        "url": url,
        "answered": probe.answered,
        "served": probe.served,
    }


def check_same(snapshot: Mapping[str, Any], found_units: Sequence[str], trial_unit: str) -> None:
    """Raise SnapshotError unless the snapshot covers exactly these units: others would be stopped unseen."""
    recorded = [entry["unit"] for entry in snapshot["found"]]
    if set(recorded) != set(found_units) or snapshot["trial_unit"] != trial_unit:
        raise SnapshotError(
            "this host still has the snapshot of sweep %s, which covers %s with trial unit %s; asked for are "
            "%s with %s. Run the restore playbook on this host first, or set treeline_found_units and "
            "treeline_trial_unit as they were"
            % (
                snapshot.get("sweep_id") or "?",
                ", ".join(recorded),
                snapshot["trial_unit"],
                ", ".join(found_units),
                trial_unit,
            )
        )


def shown_to_others(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """The snapshot for results and logs: without the answers' bulk that no reader needs."""
    shown = dict(snapshot)
    shown["found"] = [
        {**entry, "served": served.arguments(entry["served"]) if entry.get("served") else None}
        for entry in snapshot["found"]
    ]
    return shown


def process_argv(shown: Mapping[str, str]) -> Optional[list[str]]:
    """The command line of the unit's main process, from its `MainPID` property; None without one."""
    pid = shown.get("MainPID", "0")
    return units.argv_of(int(pid)) if pid.isdigit() and pid != "0" else None


def api_key(argv: Optional[Sequence[str]], key_file: Optional[str]) -> Optional[str]:
    """The key to ask a service with: from the key file, else as its own command line has it."""
    return http.read_key(key_file) or (served.option(argv, "--api-key") if argv else None)


def environment_files(value: str) -> list[str]:
    """Paths in the EnvironmentFiles property: one a line, `/path (ignore_errors=no)`."""
    return [line.rpartition(" (")[0] or line for line in value.splitlines() if line.strip()]


def changed_files(entry: Mapping[str, Any]) -> list[str]:
    """Files of a found unit whose content is no longer what the snapshot saw."""
    files = [entry.get("fragment"), *entry.get("drop_ins", ()), *entry.get("environment_files", ())]
    return [file["path"] for file in files if file and _hashed(file["path"]) != file]


def _state(unit: str) -> dict[str, Any]:
    shown = systemd.show(unit, ("ActiveState", "SubState", "UnitFileState"))
    state = shown.get("ActiveState", "")
    return {
        "unit": unit,
        "active_state": state,
        "sub_state": shown.get("SubState", ""),
        "enabled": shown.get("UnitFileState", ""),
        "running": systemd.is_running_state(state),
    }


def _hashed(path: str) -> Optional[dict[str, Any]]:
    """Path and content hash; no hash where the file cannot be read (an optional one may be absent)."""
    if not path:
        return None
    try:
        digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        digest = None
    return {"path": path, "sha256": digest}
