#!/usr/bin/python
"""Mark the start of a trial on its host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: treeline_begin
short_description: Note where a host stands just before a trial is started
description:
  - Renews the lease and returns the marks that later tell this trial's traces from older ones.
  - Fails when the found services are not on record, or when the lease has expired and they were restored.
options:
  trial_unit:
    description: The unit that trials run as.
    type: str
    required: true
  trial_id:
    description: Identity of the trial that is about to start.
    type: str
    required: true
  found_units:
    description: Units that serve production; given, the snapshot must cover exactly these.
    type: list
    elements: str
  lease:
    description: The lease, as C(seconds) and C(holder); not given, none is looked after.
    type: dict
attributes:
  check_mode:
    support: none
author: [Treeline]
"""

EXAMPLES = r"""
- name: Mark the start of the trial
  treeline_begin:
    trial_unit: sglang-ddtree-trial.service
    trial_id: 20260101T000000Z-1a2b3c4d-0001
    lease: {seconds: 600, holder: {sweep_id: 20260101T000000Z-1a2b3c4d, host: controller, pid: 4711}}
"""

RETURN = r"""
previous_invocation_id:
  description: InvocationID of the trial unit now; unchanged or empty after the restart means nothing started.
  returned: success
  type: str
cursor:
  description: Place in the journal now.
  returned: success
  type: str
at_realtime_usec:
  description: Now by the host's clock, in microseconds since the epoch.
  returned: success
  type: int
at_monotonic:
  description: Now in seconds of CLOCK_MONOTONIC.
  returned: success
  type: float
found:
  description: The found units and their states now.
  returned: success
  type: list
awake_again:
  description: Dependents and triggers stopped for the sweep that run again; they may preempt the trial.
  returned: success
  type: list
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.treeline_target import begin, files, lease, snapshot, systemd, units

ERRORS = (
    begin.BeginError,
    files.StateFileError,
    lease.LeaseError,
    snapshot.SnapshotError,
    systemd.CommandError,
)


def main() -> None:
    """Parse the arguments, do it, return."""
    module = AnsibleModule(
        argument_spec={
            "trial_unit": {"type": "str", "required": True},
            "trial_id": {"type": "str", "required": True},
            "found_units": {"type": "list", "elements": "str"},
            "lease": {"type": "dict"},
        },
    )
    given = module.params
    try:
        marks = begin.begin(
            units.full_name(given["trial_unit"]),
            given["trial_id"],
            given["lease"],
            [units.full_name(name) for name in given["found_units"] or ()],
        )
    except ERRORS as error:
        module.fail_json(msg=str(error), lease_lost=isinstance(error, lease.LeaseLostError))
    module.exit_json(changed=False, **marks)


if __name__ == "__main__":
    main()
