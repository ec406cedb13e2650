"""Action plugin: a host asks for its next trial. A door to treeline.claiming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from treeline import claiming
from treeline.lifeline import end_with_parent
from treeline.plain import to_plain
from treeline.records import Controller
from treeline.store import StoreError, SweepStore

ARGUMENTS = {
    "sweep_dir": {"type": "path", "required": True},
    "host": {"type": "str", "required": True},
    "hardware_class": {"type": "str", "required": True},
    "controller": {"type": "dict", "required": True},
    "host_lost": {"type": "bool", "default": False},
    "wait_timeout_s": {"type": "float", "default": 180.0},
    "trial_bound_s": {"type": "float"},
    "forecast_trial_s": {"type": "float"},
}


class ActionModule(ActionBase):
    """Runs on the controller only; no connection is opened."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the claimed item, or why there is none."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, checked = self.validate_argument_spec(ARGUMENTS)
        args = to_plain(checked)
        if self._task.check_mode:
            return result | {"skipped": True, "state": "done", "msg": "nothing is claimed in check mode"}
        # A worker that outlives its controller, perhaps in a long wait, would claim a trial that nobody runs.
        end_with_parent()
        if args["host_lost"]:
            answer = claiming.lost(args["host"])
        else:
            try:
                answer = claiming.claim_or_wait(
                    SweepStore(Path(args["sweep_dir"])),
                    _asker(args),
                    args["wait_timeout_s"],
                    self._display.display,
                )
            except StoreError as error:
                return result | {"failed": True, "state": "done", "msg": str(error)}
        self._display.display(answer.message)
        if answer.torn:
            self._display.warning(f"A line that was never finished was moved to {answer.torn}")
        return result | {
            "changed": answer.item is not None,
            "state": answer.state,
            "item": answer.item.to_dict() if answer.item is not None else {},
            "trial_id": answer.trial_id,
            "k": answer.k,
            "n": answer.n,
            "reason": answer.reason,
            "message": answer.message,
        }


def _asker(args: dict[str, Any]) -> claiming.Asker:
    try:
        controller = msgspec.convert(args["controller"], Controller, strict=False)
    except msgspec.ValidationError as error:
        raise AnsibleActionFail(
            f"treeline_claim: controller is not what treeline_sweep returns: {error}"
        ) from error
    return claiming.Asker(
        host=args["host"],
        hardware_class=args["hardware_class"],
        controller=controller,
        trial_bound_s=args["trial_bound_s"],
        forecast_s=args["forecast_trial_s"],
    )
