#!/usr/bin/python
"""Collect what a trial left behind on its host into one archive."""

from __future__ import annotations

DOCUMENTATION = r"""
module: treeline_evidence
short_description: Collect the evidence of a trial
description:
  - Writes the journal of the trial's service life, kernel lines of its time, the GPUs before and after it,
    the unit, the service's account of itself, the records of single requests and telemetry into one archive.
  - Says how the unit ended, whether a found unit preempted it, whether somebody stopped it, and how many
    lines of the journal are known to be lost.
  - Leaves the trial unit as it is.
options:
  unit:
    description: The unit that trials run as.
    type: str
    required: true
  trial_id:
    description: Identity of the trial.
    type: str
    required: true
  invocation_id:
    description:
      - The trial's service life. Not given, the unit's present one counts if it is not
        I(previous_invocation_id); failing that, everything of the unit after I(cursor) is taken.
    type: str
  previous_invocation_id:
    description: InvocationID of the unit before the restart.
    type: str
    default: ""
  since_realtime_usec:
    description: When the trial began, in microseconds since the epoch.
    type: int
    required: true
  since_monotonic:
    description: The same in seconds of CLOCK_MONOTONIC; not given, it is computed from the clocks now.
    type: float
  cursor:
    description: Place in the journal when the trial began.
    type: str
  found_units:
    description: Units that serve production.
    type: list
    elements: str
    default: []
  kernel_log:
    description: Where kernel lines come from, C(journal), C(none), or the path of a file that stands in.
    type: str
    default: journal
  gpu_query:
    description: The GPU query tool, a name or path; C(none) looks at no GPU.
    type: str
    default: nvidia-smi
  server_info:
    description: The service's account of itself, as M(treeline_ready) returned it.
    type: dict
    default: {}
  out_dir:
    description: Folder on the host for the archive; the load has left its records there.
    type: path
    required: true
  lease:
    description: The lease, as C(seconds) and C(holder); not given, none is looked after.
    type: dict
attributes:
  check_mode:
    support: none
author: [Treeline]
"""

EXAMPLES = r"""
- name: Collect the evidence
  treeline_evidence:
    unit: sglang-ddtree-trial.service
    trial_id: 20260101T000000Z-1a2b3c4d-0001
    invocation_id: 0e0f6c0c5a3b4b6f8f4c3d2e1f0a9b8c
    since_realtime_usec: 1767225600000000
    found_units: [sglang-ddtree.service]
    out_dir: /run/treeline/evidence/20260101T000000Z-1a2b3c4d-0001
"""

RETURN = r"""
archive:
  description: Path of the archive on the host.
  returned: success
  type: str
alive:
  description: Whether the trial's service life still runs.
  returned: success
  type: bool
end:
  description: How the service life stands or ended, by systemd and, where systemd forgot it, by the journal.
  returned: success
  type: dict
preempted_by:
  description: The found unit that runs, or has run since the trial began.
  returned: success
  type: str
stopped_by_others:
  description: Whether the unit was ordered to stop. No trial orders that before its evidence is taken.
  returned: success
  type: bool
lost_lines:
  description: How many lines of the journal are known to be missing; an unknown number counts as one.
  returned: success
  type: int
gpu:
  description: What stands in C(gpu.json), as C(tool), C(before) and C(after).
  returned: success
  type: dict
notes:
  description: What could not be had, and what was lost.
  returned: success
  type: list
take_again:
  description: The lease is gone, and what the sweep owes to this host still stands on it, as after a reboot.
  returned: always
  type: bool
sizes:
  description: Bytes of each file.
  returned: success
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.treeline_target import evidence, files, lease, systemd, units

ERRORS = (OSError, files.StateFileError, lease.LeaseError, systemd.CommandError)


def main() -> None:
    """Parse the arguments, collect, return."""
    module = AnsibleModule(
        argument_spec={
            "unit": {"type": "str", "required": True},
            "trial_id": {"type": "str", "required": True},
            "invocation_id": {"type": "str"},
            "previous_invocation_id": {"type": "str", "default": ""},
            "since_realtime_usec": {"type": "int", "required": True},
            "since_monotonic": {"type": "float"},
            "cursor": {"type": "str"},
            "found_units": {"type": "list", "elements": "str", "default": []},
            "kernel_log": {"type": "str", "default": "journal"},
            "gpu_query": {"type": "str", "default": "nvidia-smi"},
            "server_info": {"type": "dict", "default": {}},
            "out_dir": {"type": "path", "required": True},
            "lease": {"type": "dict"},
        },
    )
    given = module.params
    lost = ""
    try:
        lost = _renew(given["lease"])
        collected = evidence.collect(
            evidence.Spec(
                unit=units.full_name(given["unit"]),
                trial_id=given["trial_id"],
                out_dir=given["out_dir"],
                since_realtime_usec=given["since_realtime_usec"],
                invocation_id=given["invocation_id"] or "",
                previous_invocation_id=given["previous_invocation_id"],
                cursor=given["cursor"] or None,
                since_monotonic=given["since_monotonic"],
                found_units=[units.full_name(name) for name in given["found_units"]],
                kernel_log=given["kernel_log"],
                gpu_query=given["gpu_query"],
                server_info=given["server_info"],
            )
        )
    except ERRORS as error:
        module.fail_json(msg=str(error), lease_lost=bool(lost), take_again=_owed(lost))
    notes = [*collected["notes"], *([lost] if lost else [])]
    told = {"notes": notes, "lease_lost": bool(lost), "take_again": _owed(lost)}
    module.exit_json(**{"changed": True, **collected, **told})


def _owed(lost: str) -> bool:
    """Whether the lease is gone but not what is owed; a restore, by whomever, deletes the snapshot."""
    return bool(lost) and files.PATHS.snapshot.exists()


def _renew(given: dict) -> str:
    """Renew the lease; says why it is gone when it is. Evidence is collected all the same."""
    try:
        lease.rearm(given)
    except lease.LeaseLostError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    main()
