"""Read the journal in bounded time: the lines of one invocation, and what the engine's log tells.

Only journalctl is used; output is JSON, one entry a line. journald writes MESSAGE as a string, as a list of
byte values (when it is not clean UTF-8) or as null (when it was too large and `--all` was not given).
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import time
from dataclasses import dataclass
from typing import Any, Generator, Iterable, Iterator, Mapping, Optional, Sequence

from . import markers

# What readers of the evidence need; everything else (command lines, capabilities) is left in the journal.
FIELDS = (
    "MESSAGE,MESSAGE_ID,PRIORITY,SYSLOG_IDENTIFIER,UNIT,INVOCATION_ID,JOB_TYPE,JOB_RESULT,UNIT_RESULT,"
    "EXIT_CODE,EXIT_STATUS,N_DROPPED,OBJECT_SYSTEMD_UNIT,_PID,_COMM,_TRANSPORT,_SYSTEMD_UNIT,"
    "_SYSTEMD_INVOCATION_ID,_LINE_BREAK,_SOURCE_REALTIME_TIMESTAMP,_SOURCE_MONOTONIC_TIMESTAMP"
)
# sd-messages.h
MESSAGE_STOPPING = "de5b426a63be47a7b6ac3eaac82e2f6f"
MESSAGE_DROPPED = "a596d6fe7bfa4994828e72309e95d61e"

_READ_SIZE = 1 << 16


class JournalError(Exception):
    """journalctl is missing, failed, or did not end in time; the message says which."""


@dataclass(frozen=True)
class LogFacts:
    """What the engine's log says: seconds from its first entry to each phase, the captured verify width.

    `reached` is the last phase entered: a draft model is loaded after the target's weights are in.
    """

    phases: dict[str, float]
    captured_width: Optional[int]
    reached: Optional[str] = None


def invocation_query(invocation_id: str) -> tuple[str, ...]:
    """Matches for the lines of one service life: the engine's own, and systemd's about it."""
    return ("_SYSTEMD_INVOCATION_ID=%s" % invocation_id, "+", "INVOCATION_ID=%s" % invocation_id)


def unit_query(unit: str) -> tuple[str, ...]:
    """Matches for everything of a unit, whichever life: for when nothing started."""
    return ("_SYSTEMD_UNIT=%s" % unit, "+", "UNIT=%s" % unit)


def since(usec: int) -> str:
    """The journalctl argument for a start time in microseconds since the epoch."""
    return "--since=@%d.%06d" % divmod(usec, 1_000_000)


def settle(timeout_s: float) -> Optional[str]:
    """Let journald read everything that was written before this call; why it did not, or None.

    Lines of an engine and of systemd about it arrive by different sockets: those of systemd may stand in the
    journal while the engine's last ones still wait. `journalctl --sync` returns once the queues are empty.
    """
    argv = ["journalctl", "--sync"]
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except FileNotFoundError:
        return "journalctl is not installed on this host"
    except subprocess.TimeoutExpired:
        return "journald did not catch up within %g s: the last lines may be missing" % timeout_s
    if done.returncode != 0:
        return "journald was not asked to catch up: %s" % (done.stderr.strip() or "no output")
    return None


def stream(arguments: Sequence[str], timeout_s: float) -> Generator[bytes, None, None]:
    """Lines (no newline) of `journalctl --output=json ARGUMENTS`; it ends when the caller stops early.

    Raises JournalError when journalctl is missing, exits non-zero, or runs for more than `timeout_s` seconds.
    """
    argv = [
        "journalctl",
        "--quiet",
        "--no-pager",
        "--all",  # or large messages come as null
        "--output=json",
        "--output-fields=%s" % FIELDS,
        *arguments,
    ]
    deadline = time.monotonic() + timeout_s
    try:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except FileNotFoundError:
        raise JournalError("journalctl is not installed on this host") from None
    try:
        yield from _lines(process, deadline, timeout_s)
    finally:
        process.kill()
        process.communicate()


def _lines(process: subprocess.Popen[bytes], deadline: float, timeout_s: float) -> Iterator[bytes]:
    rest, complaint = b"", b""
    if process.stdout is None or process.stderr is None:  # both were asked for as pipes
        return
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        selector.register(process.stderr, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if time.monotonic() >= deadline:
                raise JournalError("journalctl did not end within %g s" % timeout_s)
            for key, _ in ready:
                chunk = os.read(key.fd, _READ_SIZE)
                if not chunk:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stderr:
                    complaint += chunk
                else:
                    *whole, rest = (rest + chunk).split(b"\n")
                    yield from whole
    if rest:
        yield rest
    if process.wait() != 0:
        said = complaint.decode("utf-8", "replace").strip()
        raise JournalError("journalctl exited %d: %s" % (process.returncode, said or "no output"))


def stream_after(cursor: str, matches: Sequence[str], timeout_s: float) -> Generator[bytes, None, None]:
    """Lines of the entries after a cursor that match, as `stream` gives them. Raises JournalError.

    Not by `--after-cursor`: up to systemd 252 at least, that skips one entry whether or not it is the
    cursor's own, so that the first one that matches is lost.
    """
    own = json.dumps(cursor).encode()
    for line in stream(["--cursor=%s" % cursor, *matches], timeout_s):
        if own in line and next(parse([line]), {}).get("__CURSOR") == cursor:
            continue
        yield line


def parse(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Journal entries as dicts; lines that are not JSON objects are left out."""
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            yield entry


def entries(arguments: Sequence[str], timeout_s: float) -> list[dict[str, Any]]:
    """All entries for a query, in memory: for queries that are small by nature. Raises JournalError."""
    return list(parse(stream(arguments, timeout_s)))


def message(entry: Mapping[str, Any]) -> str:
    """The MESSAGE of an entry as text; bad bytes are replaced, null is empty, of several the first counts."""
    value = entry.get("MESSAGE")
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value:
        if all(isinstance(item, int) and 0 <= item < 256 for item in value):
            return bytes(value).decode("utf-8", "replace")
        return message({"MESSAGE": value[0]})
    return ""


def usec(entry: Mapping[str, Any], field: str = "__MONOTONIC_TIMESTAMP") -> Optional[int]:
    """A time stamp of an entry in microseconds, None where it has none."""
    value = entry.get(field)
    return int(value) if isinstance(value, str) and value.isdigit() else None


def log_facts(found: Iterable[Mapping[str, Any]]) -> LogFacts:
    """Phases and captured verify width from the entries of one invocation, oldest first (see `markers`).

    A phase stands at its first line. The width is that of the target's verify graph; a line that does not say
    what it captures counts where none does; graphs of the draft and of prefill never do.
    """
    phases: dict[str, float] = {}
    start: Optional[int] = None
    reached: Optional[str] = None
    widths: dict[bool, int] = {}
    for entry in found:
        at, text = usec(entry), message(entry)
        start = at if start is None else start
        begun = markers.phase_begun(text, by_systemd(entry))
        if begun is not None and markers.moves(reached or markers.PHASES[0], begun):
            reached = begun
            if at is not None and start is not None:
                phases.setdefault(begun, round((at - start) / 1e6, 3))
        width = markers.captured_width(text)
        if width is not None:
            widths.setdefault(width.verify, width.tokens)
    return LogFacts(phases, widths.get(True, widths.get(False)), reached)


def by_systemd(entry: Mapping[str, Any]) -> bool:
    """Whether PID 1 speaks about the unit in this entry."""
    return entry.get("_PID") == "1" and entry.get("SYSLOG_IDENTIFIER") == "systemd"
