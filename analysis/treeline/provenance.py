"""What a sweep measures with, host by host, and whether two runs of it may share one folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from treeline.controller import liveness
from treeline.plain import to_plain
from treeline.records import Controller, Provenance

_COMPARED = ("hardware_class", "engine", "engine_build", "model", "driver")


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """An unexpired lease on a host, as its preflight found it."""

    holder: Controller
    sweep_id: str
    seconds_left: float | None = None


def of_host(preflight: Mapping[str, Any]) -> Provenance:
    """The provenance in what preflight returned for a host; empty for one that was refused or not reached."""
    if preflight.get("failed") or preflight.get("unreachable"):
        return Provenance()
    return Provenance(
        hardware_class=_text(preflight, "hardware_class") or _text(preflight, "hardware_class_hint") or "",
        engine=_text(preflight, "engine"),
        engine_build=_text(preflight, "engine_build"),
        model=_text(preflight, "model"),
        driver=_text(preflight, "driver"),
    )


def lease_of(preflight: Mapping[str, Any]) -> Lease | None:
    """The lease that preflight found on a host, None where there is none or it has ended."""
    found = preflight.get("lease_holder")
    if not isinstance(found, Mapping) or not found:
        return None
    left = found.get("seconds_left")
    if found.get("expired") or (isinstance(left, int | float) and left <= 0):
        return None
    holder = found.get("holder") or found.get("controller") or found
    try:
        return Lease(
            holder=msgspec.convert(to_plain(holder), Controller, strict=False),
            sweep_id=str(to_plain(holder.get("sweep_id") or found.get("sweep_id") or "")),
            seconds_left=float(left) if isinstance(left, int | float) else None,
        )
    except msgspec.ValidationError:
        return None


def differences(before: Mapping[str, Provenance], now: Mapping[str, Provenance]) -> list[str]:
    """What keeps a run from going on with an earlier one's folder, in words; empty where nothing does.

    A host is compared with itself. A host that is new may join where some host of the earlier run had the
    same provenance; hosts that are missing now do not matter, nor do those that were not reached.
    """
    found: list[str] = []
    known = {host: entry for host, entry in before.items() if entry != Provenance()}
    for host, entry in now.items():
        if entry == Provenance() or not known:
            continue
        if host in known:
            found.extend(_changes(host, known[host], entry))
        elif entry not in known.values():
            found.append(f"{host} is unlike every host of that sweep")
    return found


def clashes(hosts: Mapping[str, Provenance]) -> list[str]:
    """What hosts of one hardware class have different: their trials must not be taken for one another's."""
    first: dict[str, tuple[str, Provenance]] = {}
    found: list[str] = []
    for host, entry in hosts.items():
        if entry == Provenance():
            continue
        other, reference = first.setdefault(entry.hardware_class, (host, entry))
        found.extend(
            f"{other} and {host} are both of hardware class {entry.hardware_class!r}, but their "
            f"{name.replace('_', ' ')} differs: {getattr(reference, name)} and {getattr(entry, name)}"
            for name in _COMPARED
            if None not in (getattr(reference, name), getattr(entry, name))
            and getattr(reference, name) != getattr(entry, name)
        )
    return found


def _changes(host: str, before: Provenance, now: Provenance) -> list[str]:
    return [
        f"{host}: {name.replace('_', ' ')} was {getattr(before, name)}, is {getattr(now, name)}"
        for name in _COMPARED
        if getattr(before, name) != getattr(now, name)
    ]


def foreign_leases(leases: Mapping[str, Lease], me: Controller) -> list[str]:
    """A sentence for each host that a living controller other than ``me`` holds.

    A controller of this machine whose process is gone holds nothing any more.
    """
    return [
        f"{host} is held by {lease.holder} for sweep {lease.sweep_id or 'unknown'}{_ending(lease)}"
        for host, lease in leases.items()
        if lease.holder != me and liveness(lease.holder) != "dead"
    ]


def stale_leases(leases: Mapping[str, Lease], me: Controller) -> dict[str, dict[str, Any]]:
    """Holders, by host, whose lease still runs although their process on this machine is gone."""
    return {
        host: {**msgspec.to_builtins(lease.holder), "sweep_id": lease.sweep_id}
        for host, lease in leases.items()
        if lease.holder != me and liveness(lease.holder) == "dead"
    }


def _ending(lease: Lease) -> str:
    return (
        ""
        if lease.seconds_left is None
        else f" (its lease ends in {lease.seconds_left:.0f} s unless renewed)"
    )


def _text(values: Mapping[str, Any], name: str) -> str | None:
    value = to_plain(values.get(name))
    if value is None or value == "":
        return None
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
