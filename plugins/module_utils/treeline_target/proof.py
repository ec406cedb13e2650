"""Proof that the running service is this trial's: its own process, and the arguments that were asked for.

A restart that silently did not happen, or a service that serves other arguments than requested, would be
measured as if it were the trial; nothing here trusts what was rendered, only what runs.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping, Optional
from urllib.parse import urlsplit

from . import listeners, redact, systemd

TRIAL_VARIABLE = "TREELINE_TRIAL_ID"
PROC = Path("/proc")
_ABSENT = object()


class ProofError(Exception):
    """A process cannot be looked at; the message names it and says why."""


@dataclass(frozen=True)
class Mismatch:
    """One thing that differs from what was asked; `served` is None where it was not reported at all."""

    name: str
    expected: Any
    served: Any

    def __str__(self) -> str:
        if self.served is None:
            return "%s: asked for %r, not reported" % (self.name, self.expected)
        return "%s: asked for %r, served %r" % (self.name, self.expected, self.served)

    def as_dict(self) -> dict[str, Any]:
        """For results: plain values."""
        return {"name": self.name, "expected": self.expected, "served": self.served}


def environment_of(pid: int, proc: Path = PROC) -> dict[str, str]:
    """The environment with which process `pid` was started. Raises ProofError when it cannot be read."""
    try:
        raw = (proc / str(pid) / "environ").read_bytes()
    except OSError as error:
        raise ProofError("cannot read the environment of process %d: %s" % (pid, error.strerror)) from None
    pairs = (item.partition(b"=") for item in raw.split(b"\0") if b"=" in item)
    return {name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, _, value in pairs}


def _lookup(served: Mapping[str, Any], name: str) -> Any:
    """A value by its plain key, else by a dotted path (`internal_states.0.some_key`)."""
    if name in served:
        return served[name]
    value: Any = served
    for part in name.split("."):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            return _ABSENT
    return value


def same_value(expected: Any, served: Any) -> bool:
    """Whether a value is the one asked for: `8` equals `"8"` and `8.0`, `true` equals `"True"`, not `1`."""
    if expected is None or served is None:
        return expected is served
    if isinstance(expected, (list, dict)) or isinstance(served, (list, dict)):
        return bool(expected == served)
    if isinstance(expected, bool) or isinstance(served, bool):
        return str(expected).lower() == str(served).lower()
    try:
        return float(expected) == float(served)
    except ValueError:
        return str(expected) == str(served)


def compare(expected: Mapping[str, Any], served: Mapping[str, Any]) -> list[Mismatch]:
    """What `served` (an answer of /server_info) has different from `expected`; an unreported key differs."""
    found = []
    for name, wanted in expected.items():
        got = _lookup(served, name)
        if not same_value(wanted, None if got is _ABSENT else got):
            found.append(Mismatch(name, wanted, None if got is _ABSENT else got))
    return found


def reported(expected: Mapping[str, Any], served: Mapping[str, Any]) -> dict[str, Any]:
    """The served values of the expected keys, absent ones left out."""
    found = {name: _lookup(served, name) for name in expected}
    return {name: value for name, value in found.items() if value is not _ABSENT}


def presentable(server_info: Mapping[str, Any]) -> dict[str, Any]:
    """A /server_info answer without secrets, those in its launch command included."""
    shown: dict[str, Any] = redact.fields(dict(server_info))
    command = shown.get("launch_command")
    if isinstance(command, str):
        shown["launch_command"] = " ".join(redact.argv(_words(command)))
    return shown


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def compare_width(expected: Optional[int], captured: Optional[int]) -> Optional[Mismatch]:
    """A Mismatch when the log printed another verify width than expected; an unknown one proves nothing."""
    if expected is None or captured is None or expected == captured:
        return None
    return Mismatch("captured verify width", expected, captured)


def strangers(base_url: str, unit: str) -> Optional[list[str]]:
    """Processes outside `unit` that listen on the port of `base_url`: an older engine may answer instead.

    None where it cannot be told (nobody of this host is seen to listen there).
    """
    parts = urlsplit(base_url)
    try:
        found = listeners.find(parts.port or (443 if parts.scheme == "https" else 80))
        return listeners.strangers(found, (unit,)) if found else None
    except (OSError, systemd.CommandError):
        return None
