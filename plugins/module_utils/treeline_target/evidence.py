"""Everything that a trial left behind, in one archive: journal, kernel lines, GPUs, unit, requests, ...

The trial unit is left as it is. What cannot be had is noted, not fatal: the verdict is made from what there
is.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import shutil
import tarfile
import tempfile
from collections import deque
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Iterator, Mapping, Optional, Sequence

from . import (
    clock,
    gpu_evidence,
    gpu_tool,
    journal,
    kernel_log,
    load_records,
    proof,
    systemd,
    telemetry,
    unitwatch,
)
from .files import make_folder

JOURNAL_TIMEOUT_S = 120.0
SHORT_TIMEOUT_S = 20.0
# A flood keeps its beginning (arguments, start-up) and its end (the death); what lies between is counted.
HEAD_BYTES = 96 * 1024 * 1024
TAIL_BYTES = 32 * 1024 * 1024
ARCHIVE = "evidence.tar.gz"


@dataclass(frozen=True)
class Spec:
    """Which trial to collect. `cursor` and `since_realtime_usec` were noted before the restart."""

    unit: str
    trial_id: str
    out_dir: str
    since_realtime_usec: int
    invocation_id: str = ""
    previous_invocation_id: str = ""
    cursor: Optional[str] = None
    since_monotonic: Optional[float] = None
    found_units: Sequence[str] = ()
    kernel_log: str = "journal"
    gpu_query: str = gpu_tool.NONE
    server_info: Mapping[str, Any] = field(default_factory=dict)
    head_bytes: int = HEAD_BYTES
    tail_bytes: int = TAIL_BYTES


@dataclass
class JournalCopy:
    """What was written of the journal, and what the systemd lines in it tell."""

    lines: int = 0
    dropped: int = 0
    stopped_by_order: bool = False
    last_word_monotonic: Optional[float] = None
    invocation_id: str = ""
    problem: Optional[str] = None


def collect(spec: Spec) -> dict[str, Any]:
    """Write the archive; returns {archive, alive, end, preempted_by, stopped_by_others, lost_lines, ...}.

    Raises OSError when the archive cannot be written, systemd.CommandError when systemd does not answer.
    """
    out_dir = Path(spec.out_dir)
    make_folder(out_dir, 0o700)
    properties = systemd.show(spec.unit)
    state = unitwatch.parse_state(properties)
    invocation_id = spec.invocation_id or _own_invocation(spec, state)
    unsettled = journal.settle(SHORT_TIMEOUT_S)
    with tempfile.TemporaryDirectory(dir=out_dir, prefix=".collecting-") as folder:
        place = Path(folder)
        copy = _copy_journal(place / "journal.jsonl.gz", spec, invocation_id)
        # First the GPUs: a lost one may show in the kernel's log only once somebody asks for it.
        gpus, missing = gpu_evidence.collect(out_dir, spec.gpu_query, spec.unit, spec.found_units)
        _write_json(place / gpu_evidence.FILE_NAME, gpus)
        until = clock.realtime_usec()
        kernel = kernel_log.collect(
            place / "kernel.jsonl.gz", spec.kernel_log, spec.since_realtime_usec, until
        )
        (out_dir / kernel_log.UNTIL_NAME).write_text("%d\n" % until, "utf-8")
        lost, notes = _losses(spec, copy)
        notes += [problem for problem in (unsettled, kernel.problem, *missing) if problem]
        _write_texts(place, properties, spec)
        notes += _add_files(place, out_dir)
        known_id = invocation_id or copy.invocation_id
        result: dict[str, Any] = {
            "alive": bool(known_id) and state.invocation_id == known_id and state.running,
            "end": _end(state, known_id, copy),
            "preempted_by": _preempted_by(spec),
            "stopped_by_others": copy.stopped_by_order,
            "lost_lines": lost,
            "journal_lines": copy.lines,
            "kernel": {key: value for key, value in asdict(kernel).items() if key != "problem"},
            "gpu": gpus,
            "notes": notes,
        }
        _write_json(place / "evidence.json", result)
        sizes = {path.name: path.stat().st_size for path in sorted(place.iterdir())}
        archive = _pack(place, out_dir / ARCHIVE)
    return {"archive": str(archive), **result, "sizes": {**sizes, ARCHIVE: archive.stat().st_size}}


def _own_invocation(spec: Spec, state: unitwatch.UnitState) -> str:
    """The unit's invocation where nobody noted it (the host was away); empty when it is the one before."""
    return state.invocation_id if state.invocation_id != spec.previous_invocation_id else ""


def _copy_journal(path: Path, spec: Spec, invocation_id: str) -> JournalCopy:
    copy = JournalCopy()
    with gzip.open(path, "wb", compresslevel=6) as stream:
        try:
            for line in _capped(_watched(_lines(spec, invocation_id), copy, spec), copy, spec):
                stream.write(line + b"\n")
                copy.lines += 1
        except journal.JournalError as error:
            copy.problem = str(error)
    return copy


def _lines(spec: Spec, invocation_id: str) -> Iterator[bytes]:
    """The lines of the trial's life; where it has no id, everything of the unit since the trial began."""
    if invocation_id and not spec.cursor:
        yield from journal.stream(journal.invocation_query(invocation_id), JOURNAL_TIMEOUT_S)
        return
    matches = journal.unit_query(spec.unit)
    if spec.cursor:
        found = journal.stream_after(spec.cursor, matches, JOURNAL_TIMEOUT_S)
    else:
        found = journal.stream([journal.since(spec.since_realtime_usec), *matches], JOURNAL_TIMEOUT_S)
    for line in found:
        if not invocation_id or belongs(line, invocation_id):
            yield line


def belongs(line: bytes, invocation_id: str) -> bool:
    """Whether a line of the unit may be of this life: it names it, or none.

    journald looks up the life of a writer when it reads; when the writer is gone by then, it may find only
    the unit.
    """
    return invocation_id.encode("ascii", "replace") in line or b'INVOCATION_ID"' not in line


def _watched(lines: Iterator[bytes], copy: JournalCopy, spec: Spec) -> Iterator[bytes]:
    """Pass the lines on and note what systemd itself says about the unit in them."""
    for line in lines:
        if b'"INVOCATION_ID"' in line:
            for entry in journal.parse([line]):
                _note_systemd_line(entry, copy, spec)
        yield line


def _note_systemd_line(entry: Mapping[str, Any], copy: JournalCopy, spec: Spec) -> None:
    of = str(entry.get("INVOCATION_ID"))
    if entry.get("_PID") != "1" or of == spec.previous_invocation_id:
        return
    at = journal.usec(entry)
    copy.invocation_id = of
    copy.last_word_monotonic = at / 1e6 if at is not None else copy.last_word_monotonic
    # Written for a stop job alone. An engine that ends by itself, cleanly or not, gives no such line.
    if entry.get("MESSAGE_ID") == journal.MESSAGE_STOPPING:
        copy.stopped_by_order = True


def _capped(lines: Iterator[bytes], copy: JournalCopy, spec: Spec) -> Iterator[bytes]:
    """The first `head_bytes` and the last `tail_bytes` of the lines; what lies between is counted."""
    written = 0
    tail: deque[bytes] = deque()
    tail_size = 0
    for line in lines:
        if written < spec.head_bytes:
            written += len(line) + 1
            yield line
            continue
        tail.append(line)
        tail_size += len(line) + 1
        while tail_size > spec.tail_bytes and len(tail) > 1:
            tail_size -= len(tail.popleft()) + 1
            copy.dropped += 1
    yield from tail


def _losses(spec: Spec, copy: JournalCopy) -> tuple[int, list[str]]:
    """How many lines of the journal are known to be missing (an unknown number counts as one), and why."""
    lost, notes = copy.dropped, []
    if copy.dropped:
        notes.append("%d lines in the middle of the journal were left out: it was too large" % copy.dropped)
    if copy.problem:
        lost += 1
        notes.append("the journal was read in part: %s" % copy.problem)
    try:
        suppressed = _suppressed(spec)
        if suppressed:
            lost += suppressed
            notes.append("journald suppressed %d messages of the unit (rate limit)" % suppressed)
        oldest = _oldest_usec()
        if oldest is not None and oldest > spec.since_realtime_usec:
            lost += 1
            notes.append("the journal begins after the trial did: older entries were vacuumed away")
    except journal.JournalError as error:
        notes.append("it is not known whether lines were lost: %s" % error)
    return lost, notes


def _suppressed(spec: Spec) -> int:
    query = [journal.since(spec.since_realtime_usec), "MESSAGE_ID=%s" % journal.MESSAGE_DROPPED]
    return sum(
        int(entry.get("N_DROPPED") or 0)
        for entry in journal.entries(query, SHORT_TIMEOUT_S)
        if entry.get("OBJECT_SYSTEMD_UNIT") == spec.unit or spec.unit in journal.message(entry)
    )


def _oldest_usec() -> Optional[int]:
    with contextlib.closing(journal.stream([], SHORT_TIMEOUT_S)) as stream:
        oldest = next(journal.parse(stream), {})
    return journal.usec(oldest, "__REALTIME_TIMESTAMP")


def _write_texts(place: Path, properties: Mapping[str, str], spec: Spec) -> None:
    shown = "".join("%s=%s\n" % (key, value) for key, value in properties.items())
    (place / "show.txt").write_text(shown, "utf-8")
    (place / "unit.service").write_text(_unit_text(properties), "utf-8")
    _write_json(place / "server_info.json", proof.presentable(spec.server_info))


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n", "utf-8")


def _unit_text(properties: Mapping[str, str]) -> str:
    """The unit's files as they lie on the disk, each under a comment with its path."""
    paths = [properties.get("FragmentPath", ""), *properties.get("DropInPaths", "").split()]
    parts = []
    for path in filter(None, paths):
        try:
            parts.append("# %s\n%s" % (path, Path(path).read_text("utf-8", "replace")))
        except OSError as error:
            parts.append("# %s: %s\n" % (path, error.strerror))
    return "\n".join(parts)


def _add_files(place: Path, out_dir: Path) -> list[str]:
    """What the load has left: the records of its requests, and what was sampled meanwhile."""
    notes = []
    for source in (out_dir / load_records.FILE_NAME, out_dir / telemetry.FILE_NAME):
        try:
            shutil.copyfile(source, place / source.name)
        except FileNotFoundError:
            continue
        except OSError as error:
            notes.append("%s could not be read: %s" % (source, error.strerror))
    return notes


def _end(state: unitwatch.UnitState, invocation_id: str, copy: JournalCopy) -> dict[str, Any]:
    """How the service life stands. `ours`: systemd still knows this life; else only the journal does."""
    ours = bool(invocation_id) and state.invocation_id == invocation_id
    ended_at = state.inactive_enter_monotonic if ours else copy.last_word_monotonic
    return {
        "ours": ours,
        "invocation_id": invocation_id,
        "active_state": state.active_state,
        "sub_state": state.sub_state,
        "result": state.result,
        "exec_main_code": state.exec_main_code if ours else "",
        "exec_main_status": state.exec_main_status if ours else None,
        "inactive_enter_monotonic": None if ours and not state.ended else ended_at,
    }


def _preempted_by(spec: Spec) -> Optional[str]:
    """The found unit that runs now or has run since the trial began."""
    since = spec.since_monotonic
    if since is None:
        since = clock.monotonic() - (clock.realtime_usec() - spec.since_realtime_usec) / 1e6
    for unit in spec.found_units:
        state = unitwatch.read_state(unit)
        begun = max(state.active_enter_monotonic or 0.0, state.inactive_exit_monotonic or 0.0)
        if state.running or begun > since:
            return unit
    return None


def _pack(place: Path, archive: Path) -> Path:
    """One tar.gz of the files in `place`, replacing an earlier one in a single step."""
    unfinished = place / ".archive"
    with unfinished.open("wb") as stream:
        _write_tar(place, stream)
    unfinished.chmod(0o600)
    unfinished.replace(archive)
    return archive


def _write_tar(place: Path, stream: BinaryIO) -> None:
    # Most members are compressed already; a higher level would cost time and save nothing.
    with tarfile.open(fileobj=stream, mode="w:gz", compresslevel=1) as tar:
        for path in sorted(place.iterdir()):
            if not path.name.startswith("."):
                tar.add(path, arcname=path.name, recursive=False)
