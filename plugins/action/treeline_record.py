"""Action plugin: make the verdict on a trial and write it down. A door to treeline.recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from treeline import progress, recording
from treeline.keys import Item
from treeline.plain import clean, to_plain
from treeline.steps import Steps
from treeline.store import StoreError, SweepStore

ARGUMENTS = {
    "sweep_dir": {"type": "path", "required": True},
    "trial_id": {"type": "str", "required": True},
    "item": {"type": "dict", "required": True},
    "steps": {"type": "dict", "required": True},
    "host": {"type": "str"},
    "evidence_archive": {"type": "path"},
    "dialect": {"type": "raw"},
    "options": {"type": "dict", "default": {}},
    "failure": {"type": "str", "default": ""},
    "points_asked": {"type": "int"},
}


class ActionModule(ActionBase):
    """Runs on the controller only; no connection is opened."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the record. A trial that cannot be written down fails the task: it was not measured then."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, checked = self.validate_argument_spec(ARGUMENTS)
        args = to_plain(checked)
        if self._task.check_mode:
            return result | {"skipped": True, "msg": "nothing is recorded in check mode"}
        try:
            recorded = recording.record(SweepStore(Path(args["sweep_dir"])), _ended(args))
        except StoreError as error:
            return result | {"failed": True, "msg": f"trial {args['trial_id']} is NOT on record: {error}"}
        line = recorded.line
        self._display.display(progress.verdict_line(line))
        for remark in recorded.remarks:
            self._display.display(f"[{line.host}] trial {line.trial_id}: {remark}")
        return result | {
            "changed": True,
            "record": msgspec.to_builtins(line),
            "status": line.status,
            "measurements": recorded.measurements,
            "remarks": list(recorded.remarks),
        }


def _ended(args: dict[str, Any]) -> recording.Ended:
    try:
        item = Item.from_dict(args["item"])
    except msgspec.ValidationError as error:
        raise AnsibleActionFail(
            f"treeline_record: item is not what treeline_claim returns: {error}"
        ) from error
    dialect = args["dialect"]
    archive = args["evidence_archive"]
    return recording.Ended(
        trial_id=args["trial_id"],
        item=item,
        steps=Steps.of(args["steps"]),
        archive=Path(archive) if archive else None,
        dialect=dialect.get("name") if isinstance(dialect, dict) else dialect or None,
        failure=clean(args["failure"]),
        host=args["host"],
        baseline=str(args["options"].get("baseline") or "skip"),
        points_asked=args["points_asked"],
    )
