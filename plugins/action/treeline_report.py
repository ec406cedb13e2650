"""Action plugin: summarise a sweep and print its table. A door to treeline.report.summary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from treeline.plain import to_plain
from treeline.store import StoreError

# Drawing never holds a sweep up: what is not drawn by then is said, and `treeline report` draws it later.
PAGE_WITHIN_S = 120.0

ARGUMENTS = {
    "sweep_dir": {"type": "path", "required": True},
    "hosts": {"type": "dict"},
    "width": {"type": "int"},
    "page": {"type": "bool", "default": True},
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
            summary = write_summary(
                Path(args["sweep_dir"]),
                hosts=args["hosts"],
                width=args["width"],
                page_within_s=PAGE_WITHIN_S if args["page"] else None,
            )
        except StoreError as error:
            return result | {"failed": True, "msg": str(error)}
        self._display.display(summary.table)
        return result | {
            "changed": True,
            "csv": str(summary.csv),
            "markdown": str(summary.markdown),
            "page": str(summary.page) if summary.page else None,
            "remark": summary.remark,
            "trials": summary.trials,
            "counts": summary.counts,
        }
