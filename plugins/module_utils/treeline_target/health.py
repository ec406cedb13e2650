"""One look at a production service: does it run as its files say, and serve what is intended? Reads only."""

from __future__ import annotations

import gzip
from base64 import b64encode
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional

from . import found_units, journal, proof, served, snapshot, systemd, traffic

JOURNAL_TIMEOUT_S = 30.0
_PROPERTIES = ("NRestarts", "Result", "NeedDaemonReload", "MainPID")


@dataclass(frozen=True)
class Spec:
    """What to look at. `expected_served` are keys of /server_info with their intended values."""

    unit: str
    url: Optional[str] = None
    api_key_file: Optional[str] = None
    expected_served: Mapping[str, Any] = field(default_factory=dict)
    expected_enabled: bool = True
    journal_lines: int = 2000


def look(spec: Spec) -> dict[str, Any]:
    """{healthy, problems, notes, entry, served, running, queued, restarts, journal}.

    `problems` are sentences about what is wrong or has drifted; `journal` holds the unit's last lines
    (`journalctl -o json`, gzip, base64) for the classifier, which lives on the controller.

    Raises CommandError when systemd does not answer, KeyFileError.
    """
    entry = snapshot.look(spec.unit, spec.url, spec.api_key_file)
    shown = systemd.show(spec.unit, _PROPERTIES)
    problems: list[str] = []
    notes: list[str] = []
    _judge_unit(spec, entry, shown, problems)
    running = queued = None
    if entry["running"]:
        found_units.check_restorable(entry, problems)
        _judge_served(spec, entry, problems)
        if entry["url"]:
            key = snapshot.api_key(snapshot.process_argv(shown), spec.api_key_file)
            counted = traffic.ask(entry["url"], key)
            running, queued = counted.running, counted.queued
            notes += [counted.note] if counted.note else []
    return {
        "healthy": not problems,
        "problems": problems,
        "notes": notes,
        "entry": entry,
        "served": served.arguments(entry["served"]) if entry["served"] else None,
        "running": running,
        "queued": queued,
        "restarts": int(shown["NRestarts"]) if shown.get("NRestarts", "").isdigit() else None,
        "journal": _journal(spec, notes),
    }


def _judge_unit(spec: Spec, entry: Mapping[str, Any], shown: Mapping[str, str], problems: list[str]) -> None:
    if entry["load_state"] != "loaded":
        problems.append("%s is %s on this host" % (spec.unit, entry["load_state"] or "unknown"))
        return
    if not entry["running"]:
        problems.append(
            "%s is %s (result %s)" % (spec.unit, entry["active_state"], shown.get("Result", "unknown"))
        )
    if spec.expected_enabled and entry["enabled"] not in ("enabled", "enabled-runtime", "static", "linked"):
        problems.append(
            "%s is %s: it will not start at boot" % (spec.unit, entry["enabled"] or "not enabled")
        )


def _judge_served(spec: Spec, entry: Mapping[str, Any], problems: list[str]) -> None:
    if not entry["answered"]:
        where = entry["url"] or "any address (its command line shows no port: set treeline_served_urls)"
        problems.append("%s does not answer at %s" % (spec.unit, where))
        return
    if spec.expected_served and entry["served"] is None:
        problems.append("%s answers, but gives no served arguments to compare" % spec.unit)
        return
    apart = proof.compare(spec.expected_served, entry["served"] or {})
    problems.extend("drift: %s" % mismatch for mismatch in apart)


def _journal(spec: Spec, notes: list[str]) -> str:
    arguments = ["--lines=%d" % spec.journal_lines, *journal.unit_query(spec.unit)]
    try:
        lines = list(journal.stream(arguments, JOURNAL_TIMEOUT_S))
    except journal.JournalError as error:
        notes.append("the journal was not read: %s" % error)
        return ""
    return b64encode(gzip.compress(b"\n".join(lines))).decode("ascii")
