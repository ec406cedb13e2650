"""Run a playbook of the repository through ansible-runner, and hear what it does."""

from __future__ import annotations

import shlex
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from treeline.live.steps import Step
from treeline.plain import clean
from treeline.records import utc_now

ROOT = Path(__file__).resolve().parents[3]
_FAILED = ("runner_on_failed", "runner_on_unreachable", "error")


@dataclass
class Heard:
    """What the events of a playbook said so far. Written by ansible-runner's thread, read by ours.

    Attributes:
        sweep_dir: the folder of the sweep, once it is opened.
        steps: what each host does now.
        said: lines that our plugins displayed, not yet taken.
        failures: messages of tasks that failed and were not rescued or ignored, the last of each task.
    """

    sweep_dir: Path | None = None
    task: str = ""
    steps: dict[str, Step] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, event: dict[str, Any]) -> bool:
        """Take one event. Returns false: nothing of it needs to be kept on disk."""
        kind, data = str(event.get("event")), event.get("event_data") or {}
        with self.lock:
            if kind == "verbose":
                self.said += [
                    line for text in str(event.get("stdout") or "").splitlines() if (line := clean(text))
                ]
            elif kind == "playbook_on_task_start":
                self.task = str(data.get("task") or data.get("name") or "")
            elif kind == "runner_on_start":
                self.steps[str(data.get("host"))] = Step(str(data.get("task") or self.task), utc_now())
            elif kind == "runner_on_ok":
                self._opened(data.get("res"))
            elif kind in _FAILED and not data.get("ignore_errors"):
                self._failed(event, data)
        return False

    def lines(self) -> list[str]:
        """Take the lines that were said since the last call."""
        with self.lock:
            taken, self.said = self.said, []
        return taken

    def _opened(self, result: Any) -> None:
        found = result.get("sweep_dir") if isinstance(result, dict) else None
        if isinstance(found, str):
            self.sweep_dir = Path(found)

    def _failed(self, event: dict[str, Any], data: dict[str, Any]) -> None:
        result = data.get("res")
        message = result.get("msg") if isinstance(result, dict) else None
        host = data.get("host") or "controller"
        text = (
            f"[{host}] {data.get('task') or 'playbook'}: {clean(message or event.get('stdout') or 'failed')}"
        )
        if text not in self.failures:
            self.failures.append(text)


class Playbook:
    """One run of ansible-playbook in a thread; ``stop`` ends it."""

    def __init__(self, name: str, options: Sequence[str], heard: Heard) -> None:
        self.heard = heard
        self._stop = False
        self._name, self._options = name, list(options)
        self._folder = tempfile.TemporaryDirectory(prefix="treeline-runner-")
        self._thread, self._runner = self._started()

    def _started(self) -> tuple[threading.Thread, Any]:
        import ansible_runner

        thread, runner = ansible_runner.run_async(
            private_data_dir=self._folder.name,
            project_dir=str(ROOT),
            playbook=self._name,
            cmdline=shlex.join(self._options) or None,
            # ansible-runner sets the folder of callbacks itself, over ansible.cfg: ours must be named to it.
            envvars={
                "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
                "ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "plugins" / "callback"),
            },
            event_handler=self.heard.take,
            cancel_callback=lambda: self._stop,
            quiet=True,
        )
        return thread, runner

    @property
    def running(self) -> bool:
        """Whether it still runs."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """End ansible-playbook with everything it started on this machine; returns at once."""
        self._stop = True

    def wait(self, timeout_s: float) -> bool:
        """Wait until it has ended, at most so long. Returns whether it has."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def close(self) -> int:
        """Clean up after the end; returns the exit code."""
        self._thread.join()
        code = self._runner.rc
        self._folder.cleanup()
        return 1 if code is None else int(code)


Starter = Callable[[str, Sequence[str], Heard], Playbook]
