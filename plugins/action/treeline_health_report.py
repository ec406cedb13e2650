"""Action plugin: say how every host is; fails when one is not well. A door to treeline.rollout.health."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from treeline.plain import to_plain
from treeline.rollout.health import host_health

ARGUMENTS = {"hosts": {"type": "dict", "required": True}}


class ActionModule(ActionBase):
    """Runs on the controller only; no connection is opened."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Print one line for each host."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, checked = self.validate_argument_spec(ARGUMENTS)
        found = [host_health(host, looked) for host, looked in to_plain(checked)["hosts"].items()]
        for one in found:
            self._display.display(one.line)
        bad = [one.host for one in found if not one.healthy]
        summary = f"{len(found) - len(bad)} of {len(found)} hosts are well"
        if not bad:  # a failure prints its message by itself
            self._display.display(summary)
        return result | {
            "changed": False,
            "failed": bool(bad),
            "msg": f"{summary}; not well: {', '.join(bad)}" if bad else summary,
            "hosts": {one.host: {"healthy": one.healthy, "problems": list(one.problems)} for one in found},
        }
