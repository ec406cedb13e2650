"""Locks between processes that work on the same labs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from treeline_lab.errors import LabError


@contextmanager
def held(path: Path, timeout: float, what: str, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the lock file at `path` while the block runs; `on_wait` is called once if it is not free.

    Raises LabError, which begins with `what`, when another process keeps it for `timeout` seconds.
    """
    lock = FileLock(path)
    try:
        try:
            lock.acquire(timeout=0)
        except Timeout:
            if on_wait is not None:
                on_wait()
            lock.acquire(timeout=timeout)
    except Timeout:
        raise LabError(f"{what}: another process has held {path} for {timeout:g} s") from None
    try:
        yield
    finally:
        lock.release()
