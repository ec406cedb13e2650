"""Lines for the file that stands in for the kernel's log: a lab host has no kernel of its own.

Each line begins with an ISO 8601 time stamp; whoever reads the file labels them as coming from a stand-in.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

_log = logging.getLogger(__name__)

VARIABLE = "TREELINE_LAB_KERNEL_LOG"


def append_kernel_lines(path: str | None, lines: Sequence[str]) -> None:
    """Append ``lines`` with the present time; without a path, or where it cannot be written, say so."""
    if not lines:
        return
    if not path:
        _log.warning("The fault profile has kernel lines and no file to put them into (--kernel-log).")
        return
    stamp = datetime.now(UTC).isoformat(timespec="microseconds")
    try:
        with Path(path).open("a", encoding="utf-8") as stream:
            stream.writelines(f"{stamp} {line}\n" for line in lines)
    except OSError as error:
        _log.warning("The fault profile's kernel lines cannot be written to %s: %s.", path, error.strerror)
