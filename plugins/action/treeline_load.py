"""Action plugin: load a trial, by the module of this name, as long as ansible-playbook lives."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action.normal import ActionModule as RunOnTarget
from treeline import cross_checks, load_request, material
from treeline.lifeline import end_with_parent


class ActionModule(RunOnTarget):
    """Runs the module on the target. It may take half an hour, and renews the host's lease all the while.

    Prompts and canaries travel packed: as plain arguments they would fill the journal of the host. What the
    load saw of the engine's own counters becomes the cross-checks of each point.
    """

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the module's result."""
        end_with_parent()
        given = dict(self._task.args)
        try:
            self._task.args = load_request.packed(given, self._near_playbook)
        except material.MaterialError as error:
            raise AnsibleActionFail(f"treeline_load: {error}") from error
        try:
            result: dict[str, Any] = super().run(tmp, task_vars)
        finally:
            self._task.args = given
        cross_checks.settle(result)
        invocation = result.get("invocation")
        if isinstance(invocation, Mapping) and isinstance(invocation.get("module_args"), dict):
            invocation["module_args"].pop("material", None)
        return result

    def _near_playbook(self, name: str) -> Path:
        """The file on the controller that a task means by `name`."""
        return Path(self._loader.path_dwim(name))
