"""What a fault profile of the reference engine declares, as the fields that a trial's record must have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from treeline.signatures.catalogue import load_catalogue
from treeline_reference_engine.profiles import Rule

REJECTED = ("bad_args", "config_rejected")
# Statuses that carry no class, and those that have one of their own where the log has none.
WITHOUT_CLASS = ("timeout", "measurement_invalid")
OWN_CLASS = {"garbled": "silent_corruption", "accept_collapse": "silent_corruption"}


def expected(rule: Rule, largest: int) -> dict[str, Any]:
    """Fields of the record of a trial that met `rule` and was to capture up to `largest` requests."""
    declared = dict(rule.expect)
    class_ = declared.get("class")
    kind = "none" if class_ in (None, "ok", "unknown") else load_catalogue().by_id(class_).kind
    status = declared.get("status") or _status(class_, kind)
    if status in WITHOUT_CLASS:
        class_ = None
    elif class_ == "ok":
        class_ = OWN_CLASS.get(status, "ok")
    wanted: dict[str, Any] = {"status": status, "class": class_, "phase": declared["phase"]}
    if status in ("crash", "rejected", "void"):
        size = declared.get("captured_bs")
        wanted |= {"kind": kind, "captured_bs": largest if size == "largest" else size}
    return wanted | {name: declared[name] for name in ("rank", "step") if name in declared}


def differences(record: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Fields of `record` that are not as wanted, each with (what it is, what was wanted)."""
    return {name: (record.get(name), value) for name, value in wanted.items() if record.get(name) != value}


def _status(class_: str | None, kind: str) -> str:
    if class_ in REJECTED:
        return "rejected"
    return "void" if kind == "node" else "crash"
