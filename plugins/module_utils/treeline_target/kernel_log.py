"""The kernel's lines about GPUs, memory and killed processes in a stretch of time.

Lab hosts have no kernel of their own, so a file may stand in for it: lines that begin with an ISO 8601 time
stamp. What comes from such a file says so in each line.
"""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Iterator, Optional

from . import journal

TIMEOUT_S = 30.0
MAX_LINES = 20_000
JOURNAL, NONE = "journal", "none"
# In a trial's folder: until when the kernel's lines were read for it, in microseconds since the epoch.
UNTIL_NAME = "kernel-until"

# The driver's reports of failing hardware, firmware or links, not those of a faulty application.
# The signature catalogue has the same (a test compares them).
NODE_XIDS = frozenset((48, 63, 64, 74, 79, 92, 94, 95, 119, 120, 140, *range(144, 151), 154, 171, 172))
_XID = re.compile(r"NVRM: Xid \([^)]*\): (\d+)\b")

# Other kernel lines (firewall, network, users' devices) are nobody's business here.
_RELEVANT = re.compile(
    r"NVRM|\bXid\b|nvidia|nvlink|nvswitch|fabric|\bGPU\b|amdgpu|\bkfd\b|out of memory|oom[-_ ]?kill|"
    r"killed process|segfault|traps:|general protection|\bMCE\b|machine check|\bEDAC\b|\bAER\b|pcieport|"
    r"hardware error|hung task|blocked for more than|\bIOMMU\b|\bDMAR\b|I/O error",
    re.IGNORECASE,
)
_STAMPED = re.compile(
    r"^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,6})\d*)?\s*(Z|[+-]\d\d:?\d\d)?\s*(?P<rest>.*)$"
)


@dataclass(frozen=True)
class Collected:
    """What was written: where it came from, how many lines, how many others stood in the same time."""

    source: str
    lines: int = 0
    left_out: int = 0
    problem: Optional[str] = None


def collect(path: Path, source: str, since_usec: int, until_usec: int) -> Collected:
    """Write the relevant kernel lines between two times (microseconds since the epoch) to `path`, compressed.

    `source` is `journal`, `none`, or the path of a file that stands in. What cannot be read is a `problem`.
    """
    if source == NONE:
        return Collected(NONE)
    label = source if source == JOURNAL else "stand-in file %s" % source
    found = _from_journal(since_usec, until_usec) if source == JOURNAL else _from_file(Path(source))
    kept = others = 0
    problem = None
    with gzip.open(path, "wt", encoding="utf-8") as stream:
        try:
            for entry in found:
                at = journal.usec(entry, "__REALTIME_TIMESTAMP")
                if at is None or not since_usec <= at <= until_usec:
                    continue
                if kept < MAX_LINES and _RELEVANT.search(journal.message(entry)):
                    stream.write(json.dumps(entry) + "\n")
                    kept += 1
                else:
                    others += 1
        except (journal.JournalError, OSError) as error:
            problem = "kernel lines: %s" % error
    return Collected(label, kept, others, problem)


def node_faults(source: str, since_usec: int, until_usec: int) -> list[str]:
    """The lines between two times in which the driver reports a failure of the node.

    What cannot be read has none: whoever starts a trial then finds the failure in the GPUs themselves.
    """
    if source == NONE:
        return []
    found = _from_journal(since_usec, until_usec) if source == JOURNAL else _from_file(Path(source))
    lines = []
    try:
        for entry in found:
            at = journal.usec(entry, "__REALTIME_TIMESTAMP")
            match = _XID.search(journal.message(entry))
            if match and at is not None and since_usec <= at <= until_usec and int(match[1]) in NODE_XIDS:
                lines.append(journal.message(entry))
    except (journal.JournalError, OSError):
        pass
    return lines


def _from_journal(since_usec: int, until_usec: int) -> Iterator[dict[str, Any]]:
    until = "--until=@%d.%06d" % divmod(until_usec, 1_000_000)
    # Not --dmesg, which shows the present boot alone: a host that failed and came back is the case in hand.
    query = ["_TRANSPORT=kernel", journal.since(since_usec), until]
    return journal.parse(journal.stream(query, TIMEOUT_S))


def _from_file(path: Path) -> Iterator[dict[str, Any]]:
    """Lines of a stand-in as journal entries; a line without a time has that of the line before."""
    at: Optional[int] = None
    with path.open(encoding="utf-8", errors="replace") as stream:
        for line in stream:
            stamp, text = split_stamp(line.rstrip("\r\n"))
            at = stamp if stamp is not None else at
            if at is None or not text:
                continue
            yield {
                "MESSAGE": text,
                "__REALTIME_TIMESTAMP": str(at),
                "_TRANSPORT": "kernel",
                "SYSLOG_IDENTIFIER": "kernel",
                "TREELINE_SOURCE": "stand-in file %s" % path,
            }


def split_stamp(line: str) -> tuple[Optional[int], str]:
    """(microseconds since the epoch, rest) of a line, (None, line) without a stamp; no zone means UTC."""
    match = _STAMPED.match(line)
    if match is None:
        return None, line
    date, time, fraction, zone = match.group(1), match.group(2), match.group(3), match.group(4)
    offset = "+00:00" if zone in (None, "Z") else zone[:3] + ":" + zone[-2:]
    try:
        moment = datetime.fromisoformat("%sT%s%s" % (date, time, offset))
    except ValueError:
        return None, line
    seconds = int(moment.astimezone(timezone.utc).timestamp())
    return seconds * 1_000_000 + int((fraction or "0").ljust(6, "0")), match.group("rest")
