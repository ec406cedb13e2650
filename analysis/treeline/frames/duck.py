"""DuckDB as the reader of large files: two threads' worth of work, a bounded amount of memory."""

from __future__ import annotations

import os
from typing import Any

MEMORY_LIMIT = "2GB"
"""What one query may hold; beyond it DuckDB uses its temporary folder."""


def connect(memory_limit: str = MEMORY_LIMIT) -> Any:
    """Return a connection of its own, in memory. Nothing is loaded from the network."""
    import duckdb

    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": memory_limit,
        "threads": max(1, os.cpu_count() or 1),
        "autoinstall_known_extensions": False,
        "preserve_insertion_order": False,
    }
    return duckdb.connect(":memory:", config=settings)
