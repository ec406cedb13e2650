"""Action plugin: open a sweep (resume or begin) and close it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from treeline import closing, opening
from treeline.controller import this_controller
from treeline.keys import Plan
from treeline.plain import to_plain
from treeline.store import StoreError, SweepStore

ARGUMENTS = {
    "state": {"type": "str", "required": True, "choices": ["open", "closed"]},
    "results_dir": {"type": "path"},
    "plan": {"type": "dict"},
    "plan_hash": {"type": "str"},
    "dialect": {"type": "raw"},
    "variables": {"type": "dict", "default": {}},
    "options": {"type": "dict", "default": {}},
    "hosts": {"type": "dict", "default": {}},
    "sweep_dir": {"type": "path"},
    "fail_on_bad": {"type": "bool"},
    "forecast_trial_s": {"type": "float"},
}


class ActionModule(ActionBase):
    """Runs on the controller only; no connection is opened."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Open or close, as ``state`` says."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, checked = self.validate_argument_spec(
            ARGUMENTS,
            required_if=[
                ("state", "open", ("results_dir", "plan", "plan_hash", "dialect")),
                ("state", "closed", ("sweep_dir",)),
            ],
        )
        args = to_plain(checked)
        if self._task.check_mode:
            return result | {"skipped": True, "msg": "nothing is opened or closed in check mode"}
        try:
            done = self._open(args) if args["state"] == "open" else self._close(args)
        except (opening.SweepRefusedError, StoreError) as error:
            return result | {"failed": True, "msg": str(error)}
        return result | done

    def _open(self, args: dict[str, Any]) -> dict[str, Any]:
        try:
            plan = Plan.from_dict(args["plan"])
        except msgspec.ValidationError as error:
            raise AnsibleActionFail(
                f"treeline_sweep: plan is not what treeline_request returns: {error}"
            ) from error
        me = this_controller()
        opened = opening.open_sweep(
            Path(args["results_dir"]),
            opening.Request(plan, args["plan_hash"], _dialect(args), args["variables"], args["options"]),
            _mappings(args["hosts"]),
            me,
        )
        # How the found services differ from the trials, host by host: a number means nothing without it.
        (opened.folder / "preflight.json").write_bytes(
            msgspec.json.format(msgspec.json.encode(args["hosts"]))
        )
        did = "Resumes" if opened.resumed else "Begins"
        self._display.display(f"{did} sweep {opened.sweep_id}: {opened.reason}")
        for note in opened.notes:
            self._display.display(f"Note: {note}")
        self._display.display(f"Records: {opened.folder}")
        return {
            "changed": True,
            "sweep_id": opened.sweep_id,
            "sweep_dir": str(opened.folder),
            "resumed": opened.resumed,
            "reason": opened.reason,
            "notes": list(opened.notes),
            "interrupted": list(opened.interrupted),
            "stale_leases": opened.stale_leases,
            "controller": msgspec.to_builtins(me),
        }

    def _close(self, args: dict[str, Any]) -> dict[str, Any]:
        store = SweepStore(Path(args["sweep_dir"]))
        fail_on_bad = args["fail_on_bad"]
        if fail_on_bad is None:
            fail_on_bad = bool(store.read_sweep().options.get("fail_on_bad"))
        closed = closing.close_sweep(
            store,
            this_controller(),
            _mappings(args["hosts"]),
            fail_on_bad=fail_on_bad,
            forecast_s=args["forecast_trial_s"],
        )
        self._display.display(closed.message)
        return {
            "changed": True,
            "failed": bool(closed.failures),
            "msg": "\n".join(closed.failures) or closed.message,
            "outcome": closed.outcome,
            "finished": closed.finished,
            "failures": list(closed.failures),
            "cells": closed.states,
        }


def _dialect(args: dict[str, Any]) -> str:
    dialect = args["dialect"]
    name = dialect.get("name") if isinstance(dialect, dict) else dialect
    if not isinstance(name, str) or not name:
        raise AnsibleActionFail(f"treeline_sweep: dialect: {dialect!r} is not the name of a dialect")
    return name


def _mappings(hosts: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {host: entry if isinstance(entry, dict) else {} for host, entry in hosts.items()}
