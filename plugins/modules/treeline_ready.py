#!/usr/bin/python
"""Wait until a trial's unit serves and prove that it serves what was asked, on the host itself."""

from __future__ import annotations

DOCUMENTATION = r"""
module: treeline_ready
short_description: Wait until a trial serves, and prove that it is the trial
description:
  - Looks at the unit four times a second and returns at most two seconds after its death.
  - Asks the service for one token; a closed port while the engine loads is normal.
  - Then proves that the process is this trial's, that nobody else answers on its port, that the served
    arguments are the requested ones, and that the captured verify width is the expected one where the log
    prints it.
  - Fails unless the outcome is C(ready); the result then says how it ended all the same.
options:
  unit:
    description: The unit that trials run as.
    type: str
    required: true
  trial_id:
    description: What C(TREELINE_TRIAL_ID) must be in the environment of the unit's main process.
    type: str
    required: true
  previous_invocation_id:
    description: InvocationID of the unit before the restart, as M(treeline_begin) returned it; may be empty.
    type: str
    default: ""
  cursor:
    description: Place in the journal before the restart; finds a life that ended cleanly at once.
    type: str
  base_url:
    description: Where the trial answers.
    type: str
    required: true
  timeout_s:
    description: How long to wait at most, in seconds.
    type: int
    required: true
  expected_served:
    description: Keys of the service's C(/server_info) and the values that were asked for.
    type: dict
    default: {}
  expected_width:
    description: Verify width that the capture must print, in tokens for each request; not given, not checked.
    type: int
  api_key_file:
    description: File on the host whose first line is the API key of the service.
    type: path
  lease:
    description: The lease, as C(seconds) and C(holder); not given, none is looked after.
    type: dict
attributes:
  check_mode:
    support: none
author: [Treeline]
"""

EXAMPLES = r"""
- name: Wait until it serves and prove that it serves what was asked
  treeline_ready:
    unit: sglang-ddtree-trial.service
    trial_id: 20260101T000000Z-1a2b3c4d-0001
    previous_invocation_id: 0e0f6c0c5a3b4b6f8f4c3d2e1f0a9b8c
    base_url: http://127.0.0.1:31990
    timeout_s: 1800
    expected_served: {speculative_ddtree_budget: 16}
    expected_width: 17
"""

RETURN = r"""
outcome:
  description: One of C(ready), C(died), C(nothing_started), C(timeout), C(mismatch) and C(lease_lost).
  returned: always
  type: str
invocation_id:
  description: InvocationID of the trial's service life; empty when nothing started.
  returned: always
  type: str
ready_s:
  description: Seconds from the start of the unit to the first token.
  returned: always
  type: float
died_at_monotonic:
  description: When the unit became inactive, in seconds of CLOCK_MONOTONIC.
  returned: always
  type: float
returned_at_monotonic:
  description: When this module had its result, by the same clock.
  returned: always
  type: float
mismatches:
  description: What differs from the request, each as C(name), C(expected) and C(served).
  returned: always
  type: list
phases:
  description: Phases of the engine's start that its log shows, with the seconds to each.
  returned: always
  type: dict
proof:
  description: What the proof rests on.
  returned: always
  type: dict
server_info:
  description: The service's whole account of itself, without secrets.
  returned: always
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.treeline_target import files, http, lease, ready, systemd, units

ERRORS = (files.StateFileError, http.KeyFileError, lease.LeaseError, systemd.CommandError)


def main() -> None:
    """Parse the arguments, wait, return."""
    module = AnsibleModule(
        argument_spec={
            "unit": {"type": "str", "required": True},
            "trial_id": {"type": "str", "required": True},
            "previous_invocation_id": {"type": "str", "default": ""},
            "cursor": {"type": "str"},
            "base_url": {"type": "str", "required": True},
            "timeout_s": {"type": "int", "required": True},
            "expected_served": {"type": "dict", "default": {}},
            "expected_width": {"type": "int"},
            "api_key_file": {"type": "path"},
            "lease": {"type": "dict"},
        },
    )
    given = module.params
    try:
        spec = ready.Spec(
            unit=units.full_name(given["unit"]),
            trial_id=given["trial_id"],
            previous_invocation_id=given["previous_invocation_id"],
            base_url=given["base_url"].rstrip("/"),
            timeout_s=given["timeout_s"],
            expected_served=given["expected_served"],
            expected_width=given["expected_width"],
            api_key=http.read_key(given["api_key_file"]),
            cursor=given["cursor"] or None,
        )
        with lease.Keeper(given["lease"]) as keeper:
            result = ready.wait(spec, lambda: keeper.lost)
    except ERRORS as error:
        lost = isinstance(error, lease.LeaseLostError)
        module.fail_json(msg=str(error), lease_lost=lost, **({"outcome": "lease_lost"} if lost else {}))
    answer = {"changed": False, "lease_lost": result.outcome == "lease_lost", **result.as_dict()}
    if result.outcome == "ready":
        module.exit_json(**answer)
    module.fail_json(**answer)


if __name__ == "__main__":
    main()
