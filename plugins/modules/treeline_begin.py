#!/usr/bin/python
"""Make a host ready for a trial and mark its start."""

from __future__ import annotations

DOCUMENTATION = r"""
module: treeline_begin
short_description: Make a host ready for a trial and note where it stands
description:
  - Renews the lease and returns the marks that later tell this trial's traces from older ones.
  - Stops the trial before, and ends what it or a found service that is down left behind on the GPUs, by that
    unit's control group. The processes of a found service that runs are left; systemd stops them when the
    trial starts.
  - Fails when anybody else holds GPU memory (named), when a GPU needs a reset, when the found services are
    not on record, or when the lease has expired and they were restored.
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
  gpu_query:
    description: The GPU query tool, a name or path; C(none) looks at no GPU. A host without it has none.
    type: str
    default: nvidia-smi
  kernel_log:
    description:
      - Where kernel lines come from, C(journal), C(none), or the path of a file that stands in. A failure of
        a GPU that it reported since the trial before keeps the next one from starting.
    type: str
    default: journal
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
holders:
  description:
    - Processes that hold GPU memory, with C(pid), C(command), C(unit), C(cgroup), C(memory_mib), C(gpus) and
      C(place), which is C(found), C(trial), C(orphan), C(foreign) or C(gone).
  returned: always
  type: list
orphans_ended:
  description: Those that were left behind and ended.
  returned: always
  type: list
take_again:
  description: The lease is gone, and what the sweep owes to this host still stands on it, as after a reboot.
  returned: failure
  type: bool
notes:
  description: What could not be told, and memory that is in use without a process.
  returned: success
  type: list
awake_again:
  description: Dependents and triggers stopped for the sweep that run again; they may preempt the trial.
  returned: success
  type: list
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.treeline_target import begin, files, gpu_empty, lease, snapshot, systemd, units

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
            "gpu_query": {"type": "str", "default": "nvidia-smi"},
            "kernel_log": {"type": "str", "default": "journal"},
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
            given["gpu_query"],
            given["kernel_log"],
        )
    except gpu_empty.NotEmptyError as error:
        module.fail_json(
            msg=str(error),
            lease_lost=False,
            holders=[holder.as_dict() for holder in error.holders],
            orphans_ended=[holder.as_dict() for holder in error.ended],
        )
    except ERRORS as error:
        lost = isinstance(error, lease.LeaseLostError)
        # A restore, by whomever, deletes the snapshot: one without a lease is that of a reboot.
        module.fail_json(msg=str(error), lease_lost=lost, take_again=lost and files.PATHS.snapshot.exists())
    module.exit_json(changed=bool(marks["orphans_ended"]), **marks)


if __name__ == "__main__":
    main()
