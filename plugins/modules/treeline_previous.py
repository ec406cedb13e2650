#!/usr/bin/python
"""Keep a service as it is before a rollout changes it, and go back to that."""

from __future__ import annotations

DOCUMENTATION = r"""
module: treeline_previous
short_description: Keep a service as it was before a rollout, or put it back
description:
  - C(kept) copies unit, drop-ins, environment and configuration files, and notes enablement, state, command
    line and served arguments, once for each rollout; it is never retaken.
  - C(restored) puts all of that back, restarts where it must, and proves command line and served arguments.
options:
  state:
    description: What is wanted.
    type: str
    choices: [kept, restored]
    required: true
  rollout_id:
    description: The rollout; C(last) is the newest one that changed this host.
    type: str
    required: true
  unit:
    description: The production unit. Needed with O(state=kept).
    type: str
  files:
    description: Absolute paths of everything that the unit reads and a rollout may write.
    type: list
    elements: str
    default: []
  url:
    description: Where the service answers, where its command line does not tell.
    type: str
  api_key_file:
    description: File on the host whose first line is the API key of the service.
    type: path
  untouched_ok:
    description: A host on which nothing was kept for the rollout counts as restored; it was not changed.
    type: bool
    default: false
  ready_timeout:
    description: Seconds until the service must be proven (O(state=restored)).
    type: int
    default: 1800
attributes:
  check_mode:
    support: full
author: [Treeline]
"""

EXAMPLES = r"""
- name: Keep the service as it is
  treeline_previous:
    state: kept
    rollout_id: 20260101T000000Z-1a2b3c4d
    unit: sglang-ddtree.service
    files: [/etc/systemd/system/sglang-ddtree.service, /etc/sglang-ddtree/env]

- name: Back to it
  treeline_previous:
    state: restored
    rollout_id: 20260101T000000Z-1a2b3c4d
"""

RETURN = r"""
entry:
  description: The service as it was kept; secrets hidden.
  returned: success of C(kept)
  type: dict
restored:
  description: Whether the service is proven to be as it was.
  returned: C(restored)
  type: bool
running:
  description: Whether the service ran before the rollout, and so has to run again.
  returned: C(restored), where something was kept
  type: bool
reason:
  description: The outcome in one sentence.
  returned: always
  type: str
rollout_id:
  description: The rollout that was undone.
  returned: C(restored)
  type: str
files:
  description: Files that differed from what was kept.
  returned: C(restored)
  type: list
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.treeline_target import files, http, previous, snapshot, systemd, units

ERRORS = (
    OSError,
    files.StateFileError,
    http.KeyFileError,
    previous.PreviousError,
    snapshot.SnapshotError,
    systemd.CommandError,
)


def main() -> None:
    """Parse the arguments, do it, return."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["kept", "restored"], "required": True},
            "rollout_id": {"type": "str", "required": True},
            "unit": {"type": "str"},
            "files": {"type": "list", "elements": "str", "default": []},
            "url": {"type": "str"},
            "api_key_file": {"type": "path", "no_log": False},
            "untouched_ok": {"type": "bool", "default": False},
            "ready_timeout": {"type": "int", "default": 1800},
        },
        required_if=[("state", "kept", ("unit",))],
        supports_check_mode=True,
    )
    try:
        result = _kept(module) if module.params["state"] == "kept" else _restored(module)
    except ERRORS as error:
        module.fail_json(msg=str(error), restored=False, reason=str(error))
    if result.get("restored") is False and not module.check_mode:
        module.fail_json(msg=result["reason"], **result)
    module.exit_json(**result)


def _kept(module: AnsibleModule) -> dict[str, Any]:
    given = module.params
    unit = units.full_name(given["unit"])
    if module.check_mode:
        entry = snapshot.look(unit, given["url"], given["api_key_file"])
        return {"changed": False, "entry": entry, "reason": "check mode"}
    kept, new = previous.keep(given["rollout_id"], unit, given["files"], given["url"], given["api_key_file"])
    reason = "kept now" if new else f"kept at {kept['kept_at']}, when this rollout first came here"
    return {"changed": new, "entry": kept["entry"], "reason": reason}


def _restored(module: AnsibleModule) -> dict[str, Any]:
    given = module.params
    rollout_id = given["rollout_id"]
    if rollout_id == "last":
        known = sorted(path.name for path in previous.folder().glob("*/") if path.is_dir())
        rollout_id = known[-1] if known else ""
    if given["untouched_ok"] and previous.read(rollout_id) is None:
        reason = f"rollout {rollout_id} did not change this host"
        return {"changed": False, "restored": True, "reason": reason, "files": [], "rollout_id": rollout_id}
    found = previous.restore(rollout_id, given["ready_timeout"], given["api_key_file"], dry=module.check_mode)
    return {**found, "rollout_id": rollout_id}


if __name__ == "__main__":
    main()
