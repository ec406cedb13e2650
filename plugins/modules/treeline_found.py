#!/usr/bin/python
"""Take a host for a sweep (snapshot, lease), or give it back (restore, proven)."""

from __future__ import annotations

DOCUMENTATION = r"""
module: treeline_found
short_description: Record what runs on a host before a sweep, and bring it back afterwards
description:
  - With O(state=snapshot) installs the restore program, arms the lease, writes down the found units
    once (files, enablement, state, command line, served arguments) and stops what would start or needs them.
  - With O(state=restored) runs the restore program and proves the result. Running it again changes nothing.
options:
  state:
    description: What to bring about.
    type: str
    choices: [snapshot, restored]
    required: true
  found_units:
    description: Units that serve production on this host; needed for O(state=snapshot).
    type: list
    elements: str
  trial_unit:
    description: The unit that trials run as.
    type: str
    required: true
  lease:
    description:
      - The lease, as C(seconds) and C(holder) (the controller's identity and C(sweep_id)).
        C(replaces) may name the holder of a live lease whose process is known to be gone.
      - Not given, nothing is armed.
    type: dict
  served_urls:
    description: Address of a found unit's HTTP service, by unit, where its command line does not tell it.
    type: dict
    default: {}
  ready_timeout:
    description:
      - Seconds that a found service may take until it answers again.
      - With O(state=restored) the default is what the snapshot says.
    type: int
  api_key_file:
    description: File on the host whose first line is the key for the found services' HTTP interface.
    type: path
attributes:
  check_mode:
    support: full
author: [Treeline]
"""

EXAMPLES = r"""
- name: Write down what runs here, and make sure that it comes back
  treeline_found:
    state: snapshot
    found_units: [sglang-ddtree.service]
    trial_unit: sglang-ddtree-trial.service
    lease: {seconds: 600, holder: {sweep_id: 20260101T000000Z-1a2b3c4d, host: controller, pid: 4711}}

- name: Bring it back
  treeline_found:
    state: restored
    trial_unit: sglang-ddtree-trial.service
"""

RETURN = r"""
snapshot:
  description: What was found (O(state=snapshot)); secrets hidden.
  returned: success
  type: dict
resumed:
  description: Whether the snapshot of an earlier, unfinished run was used.
  returned: success
  type: bool
stopped:
  description: Dependents and triggers that were stopped now.
  returned: success
  type: list
restored:
  description: Whether everything that was running is proven to run again (O(state=restored)).
  returned: always
  type: bool
proven:
  description: Units and what was compared.
  returned: always
  type: list
problems:
  description: Units that are not as found, and why.
  returned: always
  type: list
reason:
  description: The outcome in one sentence.
  returned: always
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.treeline_target import files, http, lease, snapshot, systemd, takeover, units

ERRORS = (
    files.StateFileError,
    http.KeyFileError,
    lease.LeaseError,
    snapshot.SnapshotError,
    systemd.CommandError,
    takeover.TakeoverError,
)


def main() -> None:
    """Parse the arguments, do it, return."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["snapshot", "restored"], "required": True},
            "found_units": {"type": "list", "elements": "str"},
            "trial_unit": {"type": "str", "required": True},
            "lease": {"type": "dict"},
            "served_urls": {"type": "dict", "default": {}},
            "ready_timeout": {"type": "int"},
            "api_key_file": {"type": "path", "no_log": False},
        },
        required_if=[("state", "snapshot", ("found_units",))],
        supports_check_mode=True,
    )
    try:
        result = _snapshot(module) if module.params["state"] == "snapshot" else _restored(module)
    except ERRORS as error:
        module.fail_json(msg=str(error), restored=False, reason=str(error))
    if not result.get("restored", True) and not module.check_mode:
        module.fail_json(msg=result["reason"], **result)
    module.exit_json(**result)


def _snapshot(module: AnsibleModule) -> dict[str, Any]:
    given = module.params
    result = takeover.take(
        [units.full_name(name) for name in given["found_units"]],
        units.full_name(given["trial_unit"]),
        given["lease"],
        ready_timeout_s=given["ready_timeout"] or takeover.restore.DEFAULT_READY_TIMEOUT_S,
        served_urls={units.full_name(name): str(url) for name, url in given["served_urls"].items()},
        api_key_file=given["api_key_file"],
        dry=module.check_mode,
    )
    return dict(result)


def _restored(module: AnsibleModule) -> dict[str, Any]:
    given = module.params
    result = takeover.give_back(
        units.full_name(given["trial_unit"]),
        given["lease"],
        ready_timeout_s=given["ready_timeout"],
        dry=module.check_mode,
    )
    return dict(result)


if __name__ == "__main__":
    main()
