"""Action plugin: wait until a trial serves, by the module of this name, as long as ansible-playbook lives."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action.normal import ActionModule as RunOnTarget
from treeline.lifeline import end_with_parent


class ActionModule(RunOnTarget):
    """Runs the module on the target. It may take half an hour, and renews the host's lease all the while."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the module's result."""
        end_with_parent()
        result: dict[str, Any] = super().run(tmp, task_vars)
        return result
