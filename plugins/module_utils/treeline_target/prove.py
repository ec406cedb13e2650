"""Decide whether a unit is again what the snapshot saw; one look at a time, no waiting here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Optional

from . import http, redact, served, snapshot, systemd

PROBE_TIMEOUT_S = 5.0
_PROPERTIES = ("LoadState", "ActiveState", "SubState", "Result", "MainPID", "ExecMainStatus")

OK = "ok"
WAIT = "wait"
DOWN = "down"
DIFFERS = "differs"
HOPELESS = "hopeless"


@dataclass(frozen=True)
class Look:
    """One look at a unit.

    `verdict`: OK proven; WAIT on its way; DOWN not running, start it; DIFFERS runs, but not as found;
    HOPELESS cannot be started at all. `why` is one readable phrase. `proof` names what was compared.
    """

    verdict: str
    why: str
    proof: Mapping[str, str] = field(default_factory=dict)


def look_at_found(
    entry: Mapping[str, Any], key_file: Optional[str], proven_pid: Optional[int] = None
) -> tuple[Look, int]:
    """Compare a found unit that was running with its snapshot entry; returns the look and its main pid.

    A service whose main process is still `proven_pid` is not asked again.
    """
    shown = systemd.show(entry["unit"], _PROPERTIES)
    pid = int(shown["MainPID"]) if shown.get("MainPID", "").isdigit() else 0
    standing = _standing(shown, may_activate=entry["active_state"] != "active")
    if standing is not None:
        return standing, pid
    if pid and pid == proven_pid:
        return Look(OK, "proven"), pid
    argv = snapshot.process_argv(shown)
    if entry.get("argv_sha256") and (argv is None or redact.digest(argv) != entry["argv_sha256"]):
        return Look(DIFFERS, _argv_difference(entry, argv)), pid
    proof = {"argv": "equal" if entry.get("argv_sha256") else "had no process when found"}
    if not entry.get("answered"):
        proof["served"] = "did not answer when found"
        return Look(OK, "its command line is as found", proof), pid
    return _look_at_served(
        entry, served.base_url(argv or (), entry.get("url")), _key(argv, key_file), proof
    ), pid


def look_at_hanger_on(entry: Mapping[str, Any], started: bool) -> Look:
    """Compare a dependent or trigger that was running with its snapshot entry.

    One that was found on its way (a running oneshot job) counts as restored once it ran again and ended well.
    """
    shown = systemd.show(entry["unit"], _PROPERTIES)
    was_activating = entry["active_state"] == "activating"
    standing = _standing(shown, may_activate=was_activating)
    if standing is None:
        return Look(OK, "it is %s" % shown.get("ActiveState"))
    ended_well = shown.get("ActiveState") == "inactive" and shown.get("Result") in ("success", "", None)
    if was_activating and started and standing.verdict == DOWN and ended_well:
        return Look(OK, "it ran and ended")
    return standing


def _standing(shown: Mapping[str, str], may_activate: bool) -> Optional[Look]:
    """Why the unit does not stand as it should, or None when it does."""
    state = shown.get("ActiveState", "")
    if state == "active" or (may_activate and systemd.is_running_state(state)):
        return None
    if systemd.is_running_state(state) or state == "deactivating":
        return Look(WAIT, "it is %s (%s)" % (state, shown.get("SubState", "")))
    load = shown.get("LoadState", "")
    if load != "loaded":
        return Look(HOPELESS, "systemd says its unit is %s" % load)
    return Look(
        DOWN,
        "it is %s (Result=%s, status %s)"
        % (state, shown.get("Result", "?"), shown.get("ExecMainStatus", "?")),
    )


def _look_at_served(
    entry: Mapping[str, Any], url: Optional[str], key: Optional[str], proof: dict[str, str]
) -> Look:
    if url is None:
        return Look(DIFFERS, "no address to ask it at")
    probe = served.probe(url, PROBE_TIMEOUT_S, key)
    if not probe.answered:
        return Look(WAIT, "it does not answer at %s yet" % url)
    if entry.get("served") is None:
        proof["served"] = "answers; had no served arguments when found"
        return Look(OK, "it answers and its command line is as found", proof)
    if probe.served is None:
        return Look(DIFFERS, "it answers at %s, but gives no served arguments" % url)
    apart = served.differences(entry["served"], probe.served)
    if apart:
        return Look(DIFFERS, "its served arguments differ: %s" % "; ".join(apart[:5]))
    proof["served"] = "equal"
    return Look(OK, "command line and served arguments are as found", proof)


def _argv_difference(entry: Mapping[str, Any], argv: Optional[list[str]]) -> str:
    now = " ".join(redact.argv(argv)) if argv else "none"
    text = "its command line differs: was `%s`, is `%s`" % (" ".join(entry["argv"]), now)
    changed = snapshot.changed_files(entry)
    return "%s (changed since: %s)" % (text, ", ".join(changed)) if changed else text


def _key(argv: Optional[list[str]], key_file: Optional[str]) -> Optional[str]:
    try:
        return snapshot.api_key(argv, key_file)
    except http.KeyFileError:
        # A missing key file must not keep a service down; without the key the proof will say so.
        return snapshot.api_key(argv, None)
