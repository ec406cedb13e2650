"""Failures of Ansible tasks as records: what failed where, of which class, on what basis. No Ansible here.

The callback plugin hands over plain values; this module decides what they mean, writes `events.jsonl` and
renders the one line that a user reads. Events decide nothing about trials: a trial's verdict is made by the
record action, and the events of a trial take their class from it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from treeline import jsonl
from treeline.findings import BASIS_RECORD, BASIS_UNREACHABLE, UNKNOWN, Finding, censored, find
from treeline.plain import clean, to_plain
from treeline.records import utc_now
from treeline.store import StoreError, locked

SCHEMA_VERSION = 1
EVENTS = "events.jsonl"

_HIDDEN = "hidden (no_log)"
_STATE_FIELDS = ("outcome", "exec_main_code", "exec_main_status", "result", "rc")
_LINE_LIMIT = 300
_LOCK_TIMEOUT_S = 10.0

Kind = Literal["failed", "unreachable", "retry", "item_failed"]


class FailureEvent(msgspec.Struct, frozen=True, kw_only=True, rename={"class_": "class"}):
    """One failure of one task on one host.

    An event of a running trial is written at once and, when the trial is on record, again with the class:
    `revises` then names the first. Readers keep the last event of each chain (see `read_events`).
    """

    event_id: str
    at: str
    playbook: str
    play: str
    task: str
    task_path: str
    action: str
    host: str
    kind: Kind
    handler: bool
    """Whether the task is a handler."""
    rescued: bool | None
    """Whether a rescue section takes over; None where that cannot be told (handlers)."""
    ignored: bool
    """Whether the play goes on by ignore_errors or ignore_unreachable."""
    msg: str
    basis: str
    """What class and phase rest on: the part of the result that decided, or the trial's record."""
    status: str | None = None
    """Status of the trial, where it is on record."""
    class_: str | None = None
    """Class of the first cause, `unknown` where nothing in the result is known; None: not judged here."""
    phase: str | None = None
    finding: Finding | None = None
    """What was found in the result, in full; the record of a trial has its own."""
    trial_id: str | None = None
    item: str | None = None
    attempt: int | None = None
    attempts: int | None = None
    async_job_id: str | None = None
    fields: dict[str, Any] = {}
    """What the module said about the unit: outcome, exit status and the like."""
    revises: str | None = None
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True)
class Place:
    """Where in a run something happened."""

    playbook: str
    play: str
    task: str
    task_path: str
    action: str
    host: str
    handler: bool = False
    rescued: bool | None = False
    ignored: bool = False


def describe(
    kind: Kind,
    place: Place,
    result: Mapping[str, Any],
    *,
    event_id: str,
    trial_id: str | None = None,
    async_job_id: str | None = None,
) -> FailureEvent:
    """Return the event of a task result, classified by what the result itself says."""
    values = to_plain(result)
    found, basis = find(values, place.action)
    if kind == "unreachable" and not censored(values):
        found, basis = None, BASIS_UNREACHABLE
    return FailureEvent(
        **to_plain(asdict(place)),
        event_id=event_id,
        at=utc_now(),
        kind=kind,
        msg=_message(values),
        basis=basis,
        class_=found.class_ if found else None,
        phase=found.phase if found else None,
        finding=None if found is None or found.class_ == UNKNOWN else found,
        trial_id=trial_id or _text(values, "trial_id"),
        item=_item(values),
        attempt=_count(values, "attempts"),
        attempts=_count(values, "retries"),
        async_job_id=async_job_id or _text(values, "ansible_job_id"),
        fields={} if censored(values) else {name: values[name] for name in _STATE_FIELDS if name in values},
    )


def revise(event: FailureEvent, record: Mapping[str, Any], event_id: str) -> FailureEvent:
    """Return the event again with status, class and phase of the trial's record."""
    values = to_plain(record)
    return msgspec.structs.replace(
        event,
        event_id=event_id,
        at=utc_now(),
        status=_text(values, "status"),
        class_=_text(values, "class"),
        phase=_text(values, "phase"),
        msg=clean(values.get("first_error") or event.msg),
        basis=BASIS_RECORD,
        revises=event.event_id,
    )


def render(event: FailureEvent) -> str:
    """Return the event as one readable line without control characters."""
    words = [f"treeline: {event.host}: {_what(event)}"]
    if event.phase:
        words.append(f"in {event.phase}")
    kind = "handler" if event.handler else "task"
    # That a host did not answer is basis enough, and said already.
    basis = "" if event.basis == BASIS_UNREACHABLE else f"; basis: {event.basis}"
    words.append(f"({kind} '{event.task}'{_after(event)}{basis}):")
    line = " ".join([*words, event.msg or "no message"])
    line = " ".join(clean(line, 4 * _LINE_LIMIT).split())
    return line if len(line) <= _LINE_LIMIT else line[: _LINE_LIMIT - 1] + "…"


def _what(event: FailureEvent) -> str:
    plain = {"failed": "failed", "unreachable": "unreachable", "retry": "retry", "item_failed": "item failed"}
    what = event.status or plain[event.kind]
    if event.kind == "retry" and event.attempt and event.attempts:
        what = f"retry {event.attempt} of {event.attempts - 1}"
    if event.kind == "item_failed" and event.item:
        what = f"item {event.item} failed"
    if event.class_ == UNKNOWN:
        return f"{what}, cause unknown"
    return f"{what} {event.class_}" if event.class_ and event.class_ != event.status else what


def _after(event: FailureEvent) -> str:
    if event.ignored:
        return ", ignored"
    return ", rescued" if event.rescued else ""


def _message(values: Mapping[str, Any]) -> str:
    if censored(values):
        return _HIDDEN
    said = values.get("msg") or values.get("reason") or values.get("stderr") or values.get("stdout")
    return clean("" if said is None else said)


def _item(values: Mapping[str, Any]) -> str | None:
    if censored(values):
        return None
    label = values.get("_ansible_item_label", values.get(str(values.get("ansible_loop_var") or "item")))
    return None if label is None else clean(label, 200)


def _text(values: Mapping[str, Any], name: str) -> str | None:
    value = values.get(name)
    return clean(value, 200) if isinstance(value, str) and value else None


def _count(values: Mapping[str, Any], name: str) -> int | None:
    value = values.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


@dataclass
class EventLog:
    """Events on their way to a file. Until it is known they are kept; a failing disk loses none silently.

    A write never raises: what cannot be written is counted in `lost` with the reason in `problem`.
    """

    path: Path | None = None
    waiting: list[FailureEvent] = field(default_factory=list)
    written: int = 0
    lost: int = 0
    problem: str = ""

    def add(self, event: FailureEvent) -> None:
        """Write an event, or keep it until the file is known."""
        self.waiting.append(event)
        if self.path is not None:
            self._write(self.path)

    def settle(self, path: Path) -> None:
        """Say which file the events go to, and write those that waited; later calls change nothing."""
        if self.path is None:
            self.path = path
        self._write(self.path)

    def _write(self, path: Path) -> None:
        events, self.waiting = self.waiting, []
        for event in events:
            try:
                append_event(path, event)
                self.written += 1
            except (StoreError, OSError) as error:
                self.lost += 1
                self.problem = str(error)


def append_event(path: Path, event: FailureEvent) -> None:
    """Append an event to a file, on the disk when this returns. Raises StoreError and OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.parent, _LOCK_TIMEOUT_S):
        jsonl.append(path, msgspec.json.encode(event))


def read_events(path: Path) -> list[FailureEvent]:
    """Return the events of a file, each failure once, in its latest form. A missing file holds none.

    Raises StoreError when the file cannot be read or holds a line that is no event.
    """
    latest: dict[str, FailureEvent] = {}
    for number, line in enumerate(jsonl.read(path).lines, 1):
        try:
            event = msgspec.json.decode(line, type=FailureEvent)
        except msgspec.DecodeError as error:
            raise StoreError(f"{path}: line {number} is no event: {error}") from error
        if event.revises in latest:
            del latest[event.revises]
        latest[event.event_id] = event
    return list(latest.values())


class EventIds:
    """Ids that are unique among the runs that write into one file."""

    def __init__(self) -> None:
        self._stem = f"{utc_now().replace(':', '').replace('-', '')}-{os.getpid()}"
        self._number = 0

    def next(self) -> str:
        """Return the next id."""
        self._number += 1
        return f"{self._stem}-{self._number}"
