"""Look at a host before a sweep: everything that speaks against it, all at once, and what it is.

Reads only. Each check returns its problems as texts that name what is in the way and the variable or the step
that would change it.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Mapping, Optional, Sequence

from . import (
    engine,
    fence,
    found_units,
    gpu_tool,
    http,
    lease,
    listeners,
    preflight_gpus,
    snapshot,
    systemd,
    trial_account,
    unitdiff,
    units,
)
from .files import PATHS, Paths, StateFileError

NEEDED_MODULES = ("aiohttp",)


@dataclass(frozen=True)
class Request:
    """What a preflight is asked. `controller` is {host, ...} of who asks, for the lease; full unit names.

    `lease_s`: seconds of the lease that the sweep will arm; None: not known, and not checked. `gpu_query`:
    the GPU query tool, a name or path. `replaces_found`: the found services get a new configuration, so they
    need not come back as they run now; what was changed on the disk and not started yet is no problem then.
    """

    found_units: Sequence[str]
    trial_unit: str
    production_port: int
    trial_port: int
    trial_unit_text: str = ""
    model_paths: Sequence[str] = ()
    engine_python: Optional[str] = None
    engine_distribution: Optional[str] = None
    interrupt_traffic: bool = False
    replaces_found: bool = False
    served_urls: Mapping[str, str] = field(default_factory=dict)
    api_key_file: Optional[str] = None
    controller: Optional[Mapping[str, Any]] = None
    lease_s: Optional[int] = None
    gpu_query: str = gpu_tool.DEFAULT


@dataclass
class Report:
    """Problems refuse the host; notes say what could not be told; facts describe it."""

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


def look(asked: Request, paths: Paths = PATHS) -> Report:
    """Run every check that makes sense on this host; nothing is changed and nothing is raised."""
    report = Report()
    report.facts["python"] = "%d.%d.%d" % sys.version_info[:3]
    if not _check_root(report):
        return report
    _check_python(report)
    _check_names(asked, report)
    if not _check_systemd(report):
        return report
    steps: list[tuple[str, Callable[[], None]]] = [
        ("the lease", lambda: _check_lease(asked, report, paths)),
        ("the found units", lambda: _check_found(asked, report, paths)),
        ("the trial unit", lambda: _check_trial_unit(asked, report, paths)),
        ("the ports", lambda: _check_ports(asked, report)),
        ("the GPUs", lambda: _check_gpus(asked, report)),
        ("the engine", lambda: _check_engine(asked, report)),
        ("the differences between the units", lambda: _compare_units(asked, report)),
    ]
    for what, step in steps:
        try:
            step()
        except (
            http.KeyFileError,
            snapshot.SnapshotError,
            StateFileError,
            systemd.CommandError,
            OSError,
        ) as error:
            report.problems.append("%s cannot be checked: %s" % (what, error))
    return report


def _check_root(report: Report) -> bool:
    """Alone, because whatever else is looked at without root comes out wrong."""
    if os.geteuid() == 0:
        return True
    report.problems.append(
        "this runs as user %d, but only root may stop and start services; set ansible_become: true for this "
        "host (or connect as root)" % os.geteuid()
    )
    return False


def _check_python(report: Report) -> None:
    missing = [name for name in NEEDED_MODULES if importlib.util.find_spec(name) is None]
    if missing:
        report.problems.append(
            "%s has no module %s; set treeline_target_python to an interpreter that has it, such as the "
            "engine's own" % (sys.executable, ", ".join(missing))
        )


def _check_names(asked: Request, report: Report) -> None:
    if asked.trial_unit in asked.found_units:
        report.problems.append(
            "treeline_trial_unit %s is also in treeline_found_units; trials need a unit of their own"
            % asked.trial_unit
        )
    if asked.trial_port == asked.production_port:
        report.problems.append(
            "treeline_trial_port %d is the production port; set it to a free port" % asked.trial_port
        )


def _check_systemd(report: Report) -> bool:
    try:
        first = Path("/proc/1/comm").read_text(encoding="utf-8").strip()
    except OSError as error:
        first = "unknown (%s)" % error
    if first != "systemd" or not Path("/run/systemd/system").is_dir():
        report.problems.append(
            "systemd does not run this host (process 1 is %s); Treeline needs services under systemd" % first
        )
        return False
    shown = systemd.systemctl("--version").stdout.splitlines()
    report.facts["systemd_version"] = shown[0].replace("systemd ", "", 1).strip() if shown else ""
    return True


def _check_lease(asked: Request, report: Report, paths: Paths) -> None:
    held = lease.read_holder(paths)
    found = snapshot.read(paths)
    report.facts["snapshot_present"] = found["sweep_id"] if found else None
    report.facts["lease_holder"] = None
    if found is not None:
        try:
            snapshot.check_same(found, asked.found_units, asked.trial_unit)
        except snapshot.SnapshotError as error:
            report.problems.append(str(error))
    if held is None or held["seconds_left"] <= 0:
        return
    report.facts["lease_holder"] = {
        **held["holder"],
        "seconds_left": held["seconds_left"],
        "armed_at": held.get("armed_at"),
    }
    asking = asked.controller
    if asking is not None and str(asking.get("host", "")) != str(held["holder"].get("host", "")):
        report.problems.append(
            "this host is leased to %s for another %d s (armed at %s); wait for that sweep to end, or end "
            "it and run the restore playbook"
            % (lease.describe(held["holder"]), held["seconds_left"], held["armed_at"])
        )


def _check_found(asked: Request, report: Report, paths: Paths) -> None:
    report.facts["found"] = []
    for name in asked.found_units:
        entry = snapshot.look(name, _configured_url(asked, name), asked.api_key_file)
        entry["port"] = found_units.port_of(entry["url"])
        report.facts["found"].append({key: value for key, value in entry.items() if key != "served"})
        if not asked.replaces_found:
            found_units.check_restorable(entry, report.problems)
            found_units.check_stops_in_time(entry, asked.lease_s, report.problems)
        if entry["running"]:
            found_units.check_traffic(entry, asked.api_key_file, asked.interrupt_traffic, report)
    hanging = units.related(asked.found_units)
    found_units.check_upheld(hanging.upholders, asked.found_units, report.problems)
    recorded = snapshot.read(paths)
    report.facts["services_down"] = (
        found_units.running_in(recorded)
        if recorded
        else found_units.running_now(report.facts["found"], hanging)
    )


def _check_trial_unit(asked: Request, report: Report, paths: Paths) -> None:
    shown = systemd.show(asked.trial_unit, ("ActiveState", "FragmentPath", "LoadState"))
    running = shown.get("ActiveState") not in ("inactive", "failed")
    if running and report.facts.get("snapshot_present") is None:
        report.problems.append(
            "the trial unit %s is %s, but this host has no snapshot of what ran before; stop it "
            "(systemctl stop %s), or set treeline_trial_unit to another name"
            % (asked.trial_unit, shown.get("ActiveState"), asked.trial_unit)
        )
    trial_account.check(asked.trial_unit_text, report.problems)
    fragment = shown.get("FragmentPath", "")
    ours = (str(paths.units), str(paths.overrides))
    if fragment and not fragment.startswith(ours) and not fence.is_raised(asked.trial_unit, paths):
        report.problems.append(
            "%s has a unit file that is not Treeline's, %s; set treeline_trial_unit to a name that nothing "
            "uses" % (asked.trial_unit, fragment)
        )


def _check_ports(asked: Request, report: Report) -> None:
    ours = found_units.names_of(asked.found_units)
    for who in listeners.strangers(listeners.find(asked.production_port), ours):
        report.problems.append(
            "the production port %d is held by %s, which is none of treeline_found_units (%s); add its unit "
            "there if it serves production, or stop it"
            % (asked.production_port, who, ", ".join(asked.found_units))
        )
    if asked.trial_port == asked.production_port:
        return
    trial = {asked.trial_unit} if report.facts.get("snapshot_present") is not None else set()
    for who in listeners.strangers(listeners.find(asked.trial_port), trial):
        report.problems.append(
            "the trial port %d is held by %s; set treeline_trial_port to a free port, or stop it"
            % (asked.trial_port, who)
        )


def _check_gpus(asked: Request, report: Report) -> None:
    preflight_gpus.check(asked.gpu_query, asked.found_units, asked.trial_unit, report)


def _check_engine(asked: Request, report: Report) -> None:
    for path in asked.model_paths:
        if path.startswith("/") and not Path(path).exists():
            report.problems.append(
                "the model path %s does not exist on this host; give sglang_ddtree_model_path (or "
                "sglang_ddtree_draft_model_path) a path that is there" % path
            )
        elif not path.startswith("/"):
            report.notes.append("the model %s is no path: whether it is there was not looked at" % path)
    local = [path for path in asked.model_paths if path.startswith("/")]
    report.facts["model"] = engine.model_identity(local) or " + ".join(asked.model_paths) or None
    report.facts["engine"] = engine.name_of(asked.engine_distribution or "")
    report.facts["engine_build"] = None
    if asked.engine_python and asked.engine_distribution:
        try:
            report.facts["engine_build"] = engine.build(asked.engine_python, asked.engine_distribution)
        except engine.EngineError as error:
            report.problems.append(str(error))


def _compare_units(asked: Request, report: Report) -> None:
    report.facts["differences"] = {"only_found": [], "only_trial": []}
    loaded = [entry["unit"] for entry in report.facts["found"] if entry["load_state"] == "loaded"]
    if not loaded or not asked.trial_unit_text:
        return
    text = systemd.systemctl("cat", "--", loaded[0]).stdout
    difference = unitdiff.compare(text, asked.trial_unit_text)
    report.facts["differences"] = {
        "only_found": difference.only_found,
        "only_trial": difference.only_trial,
    }


def _configured_url(asked: Request, unit: str) -> Optional[str]:
    """The address given for the unit; the first one is the production service."""
    if unit in asked.served_urls:
        return asked.served_urls[unit]
    return "http://127.0.0.1:%d" % asked.production_port if unit == asked.found_units[0] else None
