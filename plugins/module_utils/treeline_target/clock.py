"""The target's clocks, in one place so that every record speaks of the same ones."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boottime() -> float:
    """Seconds since boot, suspended time included (CLOCK_BOOTTIME)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def monotonic() -> float:
    """Seconds of CLOCK_MONOTONIC, the clock of systemd's `...TimestampMonotonic` properties."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def realtime_usec() -> int:
    """Microseconds since the epoch, as journald stamps its entries."""
    return time.time_ns() // 1000


def utc_now(timespec: str = "seconds") -> str:
    """Now as an ISO 8601 UTC text: whole seconds, or what `timespec` (of datetime.isoformat) says."""
    return datetime.now(timezone.utc).isoformat(timespec=timespec).replace("+00:00", "Z")


def boot_id() -> str:
    """The kernel's id of this boot."""
    return _BOOT_ID.read_text(encoding="ascii").strip()
