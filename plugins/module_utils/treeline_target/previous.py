"""What a service was before a rollout changed it, kept on the host, and the way back to it.

Kept once for each rollout, before its first change here: a rollout that is run again after it was killed
half-way still knows what was there before it began. Only a proven way back ends that; what somebody deploys
after it is kept anew when the rollout comes again. The copies may hold secrets (0600, root).
"""

from __future__ import annotations

import base64
import shutil
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence

from . import bringup, clock, prove, snapshot, systemd, units
from .files import PATHS, Paths, StateFileError, make_folder, read_json, write_atomic, write_json

SCHEMA_VERSION = 1
# Rollouts whose copies stay on a host.
KEPT = 5


class PreviousError(Exception):
    """What was kept cannot be used; the message says why and what to do."""


def folder(paths: Paths = PATHS) -> Path:
    """Where copies are kept, a folder for each rollout."""
    return paths.state / "rollouts"


def read(rollout_id: str, paths: Paths = PATHS) -> Optional[dict[str, Any]]:
    """What was kept for a rollout, None where nothing was. Raises PreviousError or StateFileError."""
    kept = read_json(_path(rollout_id, paths))
    if kept is not None and kept.get("schema_version") != SCHEMA_VERSION:
        raise PreviousError(
            "%s was written by another version of Treeline (schema %r); go back with that version"
            % (_path(rollout_id, paths), kept.get("schema_version"))
        )
    return kept


def keep(
    rollout_id: str,
    unit: str,
    files: Sequence[str],
    url: Optional[str] = None,
    api_key_file: Optional[str] = None,
    paths: Paths = PATHS,
) -> tuple[dict[str, Any], bool]:
    """Keep the service as it is now, unless this rollout has changed it since: (kept, whether now).

    Args:
        files: absolute paths of everything that the unit reads and a rollout may write; absences count.

    Raises StateFileError, CommandError, KeyFileError, PreviousError or OSError.
    """
    kept = read(rollout_id, paths)
    if kept is not None:
        if kept["unit"] != unit:
            raise PreviousError("rollout %s kept %s here, not %s" % (rollout_id, kept["unit"], unit))
        if "restored_at" not in kept:
            return kept, False
    entry = snapshot.look(unit, url, api_key_file)
    drop_ins = [str(path) for path in _drop_ins(unit)]
    kept = {
        "schema_version": SCHEMA_VERSION,
        "rollout_id": rollout_id,
        "kept_at": clock.utc_now(),
        "unit": unit,
        "entry": entry,
        "files": {path: _copy(Path(path)) for path in [*files, *drop_ins]},
    }
    make_folder(folder(paths), 0o700)
    write_json(_path(rollout_id, paths), kept)
    _tidy(paths, rollout_id)
    return kept, True


def restore(
    rollout_id: str,
    timeout_s: float,
    api_key_file: Optional[str] = None,
    dry: bool = False,
    paths: Paths = PATHS,
    bounds: bringup.Bounds = bringup.BOUNDS,
) -> dict[str, Any]:
    """Put files, drop-ins, enablement and state back and prove it.

    Returns {changed, restored, running, reason, files, proof}; `running` is whether it ran before the
    rollout. A service that ran and answered must run with the same command line and answer with the same
    arguments within `timeout_s` seconds; one that did not is stopped.

    Raises PreviousError when nothing was kept or the service does not stop, StateFileError, CommandError or
    OSError.
    """
    kept = read(rollout_id, paths)
    if kept is None:
        raise PreviousError(
            "nothing was kept on this host for rollout %s: it was not changed by it"
            % (rollout_id or "(none)")
        )
    unit, entry = kept["unit"], kept["entry"]
    differing = changed_files(kept)
    if dry:
        return {
            "changed": bool(differing),
            "restored": not differing,
            "running": bool(entry["running"]),
            "files": differing,
            "reason": "check mode",
        }
    for path in differing:
        _put_back(Path(path), kept["files"].get(path))
    if differing:
        systemd.systemctl("daemon-reload")
    enablement = _enable_as_before(unit, entry["enabled"])
    moved = _run_as_before(unit, entry, bool(differing), api_key_file, bounds)
    item = bringup.Item(entry, "found")
    if entry["running"]:
        bringup.bring_up([item], api_key_file, timeout_s, bounds)
    stands = item.stands or not entry["running"]
    if stands:
        write_json(_path(rollout_id, paths), {**kept, "restored_at": clock.utc_now()})
    reason = (
        "%s is as it was before rollout %s" % (unit, rollout_id)
        if stands
        else "%s is NOT as it was before rollout %s: %s" % (unit, rollout_id, item.look.why)
    )
    return {
        "changed": bool(differing) or enablement or moved,
        "restored": stands,
        "running": bool(entry["running"]),
        "reason": reason,
        "files": differing,
        "proof": dict(item.proof),
    }


def changed_files(kept: Mapping[str, Any]) -> list[str]:
    """Paths whose content or mode is no longer what was kept; drop-ins that are new are among them."""
    now = {str(path) for path in _drop_ins(kept["unit"])}
    paths = sorted(set(kept["files"]) | now)
    return [path for path in paths if _copy(Path(path)) != kept["files"].get(path)]


def _drop_ins(unit: str) -> list[Path]:
    """Drop-in files that an administrator or a role may have written for the unit."""
    return sorted(Path("/etc/systemd/system/%s.d" % unit).glob("*.conf"))


def _copy(path: Path) -> Optional[dict[str, Any]]:
    """Content, mode and owner of a file; None where there is none."""
    try:
        stat, data = path.stat(), path.read_bytes()
    except FileNotFoundError:
        return None
    return {
        "data": base64.b64encode(data).decode("ascii"),
        "mode": stat.st_mode & 0o7777,
        "uid": stat.st_uid,
        "gid": stat.st_gid,
    }


def _put_back(path: Path, copy: Optional[Mapping[str, Any]]) -> None:
    if copy is None:
        path.unlink(missing_ok=True)
        return
    write_atomic(path, base64.b64decode(copy["data"]), copy["mode"], (copy["uid"], copy["gid"]))


def _enable_as_before(unit: str, enabled: str) -> bool:
    """Enable or disable; True when that changed something. Other states (static, masked, absent) are left."""
    now = systemd.show(unit, ("UnitFileState",)).get("UnitFileState", "")
    if now == enabled or "enabled" not in (now, enabled):
        return False
    systemd.systemctl("enable" if enabled == "enabled" else "disable", "--", unit, check=False)
    return True


def _run_as_before(
    unit: str, entry: Mapping[str, Any], differing: bool, key_file: Optional[str], bounds: bringup.Bounds
) -> bool:
    """Stop what must not run (any more); what must run is started by the caller. True: something moved.

    Raises PreviousError when the unit does not stop.
    """
    running = systemd.is_running_state(units.active_state(unit))
    if not running:
        return bool(entry["running"])
    if entry["running"] and not differing:
        look, _ = prove.look_at_found(entry, key_file)
        if look.verdict != prove.DIFFERS:
            return False
    if not units.stop(unit, bounds.stop) and not units.kill(unit, bounds.kill):
        raise PreviousError("%s does not stop, even when killed" % unit)
    return True


def _path(rollout_id: str, paths: Paths) -> Path:
    if not rollout_id or "/" in rollout_id or rollout_id.startswith("."):
        raise PreviousError("%r is not the id of a rollout" % rollout_id)
    return folder(paths) / rollout_id / "kept.json"


def _tidy(paths: Paths, but: str) -> None:
    """Forget the oldest rollouts beyond KEPT; ids begin with the time."""
    names = sorted(path.name for path in folder(paths).iterdir() if path.is_dir() and path.name != but)
    for name in names[: max(0, len(names) - (KEPT - 1))]:
        shutil.rmtree(folder(paths) / name, ignore_errors=True)


__all__ = ["KEPT", "PreviousError", "StateFileError", "changed_files", "folder", "keep", "read", "restore"]
