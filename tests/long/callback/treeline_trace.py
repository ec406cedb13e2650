"""Callback of the long tests: a line on a file whenever a task begins, so that a harness knows where it is.

The stock output cannot tell: under the strategy `free` it names a task when its first result is there.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: treeline_trace
type: notification
short_description: Writes down when each task begins
description: Appends a JSON line {at, play, task, handler} to the file named by TREELINE_TRACE.
"""


class CallbackModule(CallbackBase):
    """Appends; the last line is what the run does now."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "treeline_trace"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self._path = os.environ.get("TREELINE_TRACE", "")
        self._play = ""

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """A play has begun; its first task may be some time away."""
        self._play = play.get_name().strip()
        self._write("")

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        """A task begins on a host; handlers come by here too."""
        self._write(task.get_name().strip())

    def _write(self, task: str) -> None:
        if not self._path:
            return
        line = json.dumps({"at": time.time(), "play": self._play, "task": task})
        with open(self._path, "a", encoding="utf-8") as stream:  # noqa: PTH123
            stream.write(line + "\n")
