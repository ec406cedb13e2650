"""Action plugin: summarise a sweep and print its table. A door to treeline.report.summary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from treeline.plain import to_plain
from treeline.store import StoreError

ARGUMENTS = {
    "sweep_dir": {"type": "path", "required": True},
    "hosts": {"type": "dict"},
    "width": {"type": "int"},
}


class ActionModule(ActionBase):
    """Runs on the controller only; no connection is opened."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the paths of the summary, or fail with why there is none."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, checked = self.validate_argument_spec(ARGUMENTS)
        args = to_plain(checked)
        if self._task.check_mode:
            return result | {"skipped": True, "msg": "nothing is reported in check mode"}
        from treeline.report.summary import write_summary  # pandas: only here, not in every fork

        try:
            summary = write_summary(Path(args["sweep_dir"]), hosts=args["hosts"], width=args["width"])
        except StoreError as error:
            return result | {"failed": True, "msg": str(error)}
        self._display.display(summary.table)
        return result | {
            "changed": True,
            "csv": str(summary.csv),
            "markdown": str(summary.markdown),
            "trials": summary.trials,
            "counts": summary.counts,
        }
