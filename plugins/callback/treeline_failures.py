"""Callback plugin: keep every failed, unreachable and retried task as data. A door to treeline.failures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase
from ansible.release import __version__

DOCUMENTATION = r"""
name: treeline_failures
type: notification
short_description: Keep every failed, unreachable and retried task as data, with its cause
description:
  - Writes one JSON line for each failed, unreachable or retried task, each failed loop item and each failed
    handler of any playbook or ad hoc command to a file of events, and prints one readable line with the class
    and the phase of the failure where they are known, and what they rest on (journal lines in the result,
    stderr, the task's message, the record of the trial, ...).
  - While a sweep runs, the file is C(events.jsonl) in the folder of the sweep; events from before the sweep
    was opened are put there too. Without a sweep it is C(results/events.jsonl) in the repository (for a
    playbook from elsewhere, beside that), or C(events.jsonl) in C(treeline_results_dir) when that is given
    with C(-e).
  - What each host does now is left in C(steps.json) there, for C(treeline status).
  - Results of tasks with C(no_log) are never read.
  - Never fails a play. What could not be written is counted and said at the end.
requirements:
  - enabling in the configuration (C(callbacks_enabled))
  - the C(treeline) package in the Python of ansible-playbook
  - junitparser there, for C(junit_file)
options:
  events_file:
    description: File to append to, in place of the above.
    type: path
    ini:
      - section: callback_treeline_failures
        key: events_file
    env:
      - name: TREELINE_EVENTS_FILE
  quiet:
    description: Whether to print nothing; the file is written all the same.
    type: bool
    default: false
    ini:
      - section: callback_treeline_failures
        key: quiet
    env:
      - name: TREELINE_FAILURES_QUIET
  junit_file:
    description:
      - JUnit XML file to write at the end of the run, replaced if it exists. Nothing is written without it.
      - One case a host and task, or a host and trial, in one suite a play. A failed case has the class as its
        type, and class, phase, basis and first error line in its text. Unreachable hosts and trials that the
        node spoiled are errors; failures that were ignored or rescued only stand in the output of the case.
      - A run that is interrupted writes no file.
    type: path
    ini:
      - section: callback_treeline_failures
        key: junit_file
    env:
      - name: TREELINE_JUNIT_FILE
author: [Treeline]
"""

REPOSITORY = Path(__file__).resolve().parents[2]

# From 2.21 on a retry carries the number of the attempt that follows, before that of the one that failed.
_AHEAD = int(tuple(int(part) for part in __version__.split(".")[:2]) >= (2, 21))


class CallbackModule(CallbackBase):
    """Turns Ansible's objects into plain values and hands them to treeline.failures.Capture."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "treeline_failures"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._capture: Any = None
        self._steps: Any = None
        self._quiet = False
        self._wants_all = False
        self._errors = 0
        self._playbook = ""
        self._play = ""
        self._default = Path("results")

    def set_options(self, task_keys: Any = None, var_options: Any = None, direct: Any = None) -> None:
        """Read the options; without the treeline package the plugin says so once and stays silent."""
        super().set_options(task_keys=task_keys, var_options=var_options, direct=direct)
        self._quiet = bool(self.get_option("quiet"))
        try:
            from treeline.events import EventLog
            from treeline.failures import Capture
            from treeline.junit_cases import Cases
            from treeline.live.steps import Steps
        except ImportError as error:
            self._display.warning(
                f"treeline_failures: failures are not recorded: treeline cannot be imported ({error})"
            )
            return
        file, junit = self.get_option("events_file"), self.get_option("junit_file")
        self._wants_all = bool(junit)
        cases = Cases(Path(junit)) if junit else None
        self._capture = Capture(EventLog(Path(file) if file else None), self._say, cases)
        self._steps = Steps()

    # --- where we are ----------------------------------------------------------------------------------

    def v2_playbook_on_start(self, playbook: Any) -> None:
        """Remember the playbook, and where events go when there is no sweep."""
        name = Path(playbook._file_name).name
        self._playbook = "ad hoc" if name.startswith("__") else name
        folder = Path(playbook._basedir).resolve()
        self._default = (REPOSITORY if folder.is_relative_to(REPOSITORY) else folder) / "results"

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """Remember the play."""
        self._play = play.get_name().strip()
        manager = play.get_variable_manager()
        given = manager.extra_vars.get("treeline_results_dir") if manager is not None else None
        if isinstance(given, str) and given and "{{" not in given:
            self._default = Path(given)

    # --- what happened ---------------------------------------------------------------------------------

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        """Take a task that starts on a host: for whoever watches, and where every task is of interest."""
        if self._capture is None:
            return
        with _Counted(self):
            name = str(host.get_name())
            self._steps.begin(name, task.get_name().strip())
            if self._wants_all:
                self._capture.begin(name, str(task._uuid), self._place(task, name))

    def v2_runner_on_skipped(self, result: Any) -> None:
        """Take a task that was skipped, where every task is of interest."""
        if self._capture is not None and self._wants_all:
            with _Counted(self):
                self._capture.end(_host(result), str(_task(result)._uuid), skipped=True)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool | None = False) -> None:
        """Take a task or a handler that failed for good."""
        self._failure("failed", result, ignored=bool(ignore_errors))

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Take a host that did not answer."""
        self._failure("unreachable", result, ignored=bool(_task(result).ignore_unreachable))

    def v2_runner_item_on_failed(self, result: Any) -> None:
        """Take one item of a loop; the result of the whole loop follows."""
        self._failure("item_failed", result, ignored=bool(_task(result).ignore_errors))

    def v2_runner_retry(self, result: Any) -> None:
        """Take an attempt that will be repeated."""
        values = dict(_values(result))
        if isinstance(values.get("attempts"), int):
            values["attempts"] -= _AHEAD
        self._failure("retry", result, ignored=True, values=values)

    def v2_runner_on_async_failed(self, result: Any) -> None:
        """Remember the job; the failure itself follows as v2_runner_on_failed."""
        values = _values(result)
        job = values.get("ansible_job_id") or (values.get("async_result") or {}).get("ansible_job_id")
        if self._capture is not None:
            self._capture.async_timeout(_host(result), str(_task(result)._uuid), job)

    def v2_runner_on_ok(self, result: Any) -> None:
        """Take the results of our own actions: they tell the folder, the trial, its verdict, what is ill."""
        if self._capture is None:
            return
        task, host = _task(result), _host(result)
        action = str(task.action)
        with _Counted(self):
            if action.rpartition(".")[2].startswith("treeline_"):
                self._steps.result(_values(result))
                self._capture.success(action, host, _values(result), self._place(task, host))
            if self._wants_all:
                self._capture.end(host, str(task._uuid))

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Write what waits, and say what was lost."""
        if self._capture is None:
            return
        with _Counted(self):
            for line in self._capture.finish(self._default / "events.jsonl"):
                self._display.warning(line)
        if self._errors:
            self._display.warning(f"treeline_failures: {self._errors} results could not be understood")

    def _failure(self, kind: str, result: Any, *, ignored: bool, values: Any = None) -> None:
        if self._capture is None:
            return
        with _Counted(self):
            task = _task(result)
            handler = _is_handler(task)
            rescued = _is_rescued(task) if kind == "failed" and not handler else None if handler else False
            name = getattr(result, "task_name", None)
            place = self._place(task, _host(result), name, rescued=rescued, ignored=ignored)
            taken = _values(result) if values is None else values
            self._capture.failure(kind, place, taken, task_id=str(task._uuid))

    def _place(
        self, task: Any, host: str, name: Any = None, *, rescued: bool | None = False, ignored: bool = False
    ) -> Any:
        from treeline.events import Place

        return Place(
            playbook=self._playbook,
            play=self._play,
            task=str(name or task.get_name()).strip(),
            task_path=str(task.get_path() or ""),
            action=str(task.action),
            host=host,
            handler=_is_handler(task),
            rescued=rescued,
            ignored=ignored,
        )

    def _say(self, line: str) -> None:
        if not self._quiet:
            self._display.display(line, color="bright purple")


class _Counted:
    """Counts an error of our own and lets it go on: Ansible makes a warning of it, tests an error."""

    def __init__(self, plugin: CallbackModule) -> None:
        self._plugin = plugin

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._plugin._errors += 1


# ansible-core 2.19 has host, task and result; older cores have only the underscored names, which will go.


def _task(result: Any) -> Any:
    return result.task if hasattr(result, "task") else result._task


def _host(result: Any) -> str:
    return str((result.host if hasattr(result, "host") else result._host).get_name())


def _values(result: Any) -> Any:
    return result.result if hasattr(result, "result") else result._result


def _is_handler(task: Any) -> bool:
    return type(task).__name__ == "Handler"


def _is_rescued(task: Any) -> bool:
    """Tell whether a block around a task has a rescue section that takes over when the task fails."""
    child, parent = task, getattr(task, "_parent", None)
    while parent is not None:
        if getattr(parent, "rescue", None) and any(entry._uuid == child._uuid for entry in parent.block):
            return True
        child, parent = parent, getattr(parent, "_parent", None)
    return False
