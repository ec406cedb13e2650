"""How far a load is, for whoever asks meanwhile: at most once a second, in a file or to a listener."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any, Callable, Optional

from . import clock
from .load_client import Client
from .load_loops import Run

FILE_NAME = "progress.json"
EVERY_S = 1.0

Listener = Callable[[dict[str, Any]], None]


class FileListener:
    """Replaces `progress.json` in a folder each time.

    What cannot be written is let go: no load ends for its progress, and nothing else rests on the file.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME
        self._temporary = folder / (".%s.%d" % (FILE_NAME, os.getpid()))

    def __call__(self, progress: dict[str, Any]) -> None:
        try:
            self._temporary.write_text(json.dumps(progress) + "\n", encoding="utf-8")
            self._temporary.chmod(0o644)
            self._temporary.replace(self.path)
        except OSError:
            self._temporary.unlink(missing_ok=True)


class Progress:
    """Looks at the run that is going on, once a second, and tells a listener.

    `points_of` counts the points that are planned; repeats up to convergence may make it fewer.
    """

    def __init__(self, client: Client, listener: Optional[Listener], points_of: int) -> None:
        self._client = client
        self._listener = listener
        self._points_of = points_of
        self._began = time.monotonic()
        self._seen = (self._began, 0)
        self.points_done = 0
        self.run: Optional[Run] = None
        self.phase = "start"
        self.ends_at: Optional[float] = None
        """When a run ends that is bounded by time (seconds, CLOCK_MONOTONIC)."""

    def enter(self, phase: str, run: Optional[Run] = None, ends_at: Optional[float] = None) -> None:
        """Another phase begins, with its run where it has one."""
        self.phase, self.run, self.ends_at = phase, run, ends_at
        self._seen = (time.monotonic(), 0)

    async def watch(self) -> None:
        """Tell the listener once a second; runs for ever."""
        while True:
            self.tell()
            await asyncio.sleep(EVERY_S)

    def tell(self) -> None:
        """Tell the listener now."""
        if self._listener is not None:
            self._listener(self.look())

    def look(self) -> dict[str, Any]:
        """{phase, point, concurrency, context, repeat, done, of, failed, in_flight, tok_s, eta_s, ...}."""
        now = time.monotonic()
        run = self.run
        found: dict[str, Any] = {
            "phase": self.phase,
            "point": run.key.label if run else None,
            "concurrency": run.key.concurrency if run else None,
            "context": run.key.context if run else None,
            "repeat": run.repeat if run else None,
            "done": run.ended_count if run else None,
            "of": run.asked if run else None,
            "failed": run.failed if run else None,
            "in_flight": self._client.in_flight,
            "tok_s": self._speed(run, now) if run else None,
            "eta_s": self._eta(run, now) if run else None,
            "points_done": self.points_done,
            "points_of": self._points_of,
            "elapsed_s": round(now - self._began, 1),
            "at": clock.utc_now("milliseconds"),
        }
        return found

    def _speed(self, run: Run, now: float) -> Optional[float]:
        """Tokens per second since the look before this one, those of unfinished answers included."""
        tokens = run.tokens + self._client.tokens_in_flight
        then, before = self._seen
        self._seen = (now, tokens)
        if now - then < EVERY_S / 10 or not run.started:
            return None
        return round(max(0, tokens - before) / (now - then), 1)

    def _eta(self, run: Run, now: float) -> Optional[float]:
        """Seconds until the run ends, if it goes on as so far."""
        if self.ends_at is not None:
            return round(max(0.0, self.ends_at - now), 1)
        if not run.asked or not run.ended_count or not run.started:
            return None
        return round((now - run.started) * (run.asked - run.ended_count) / run.ended_count, 1)
