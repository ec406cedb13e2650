"""Documentation of the action plugin of the same name; it runs on the controller."""

DOCUMENTATION = r"""
module: treeline_sweep
short_description: Open a sweep folder for this run, or close it
description:
  - Opening resumes the newest unfinished sweep of the same plan with the same provenance (engine build,
    model, driver), else begins a new one, and says which and why. Trials that an earlier run left without a
    verdict are listed; they are run again. A sweep that still owes a host its services is unfinished.
  - Opening fails at once while another ansible-playbook works on that sweep, or while another controller's
    lease holds one of the hosts; the message names it.
  - Closing writes down how the run ended. It fails when a host is not restored or left the sweep early, when
    the plan was stopped, when items are left that no host could run, and with O(fail_on_bad) when a cell is
    not good.
  - Runs on the controller and opens no connection.
options:
  state:
    description: What to do.
    type: str
    choices: [open, closed]
    required: true
  results_dir:
    description: Folder of all sweeps. Needed to open.
    type: path
  plan:
    description: The plan as C(treeline_request) returns it. Needed to open.
    type: dict
  plan_hash:
    description: The hash of that plan; the same hash is the same sweep. Needed to open.
    type: str
  dialect:
    description: Name or path of the dialect, or a mapping with C(name). Needed to open.
    type: raw
  variables:
    description: Public variables of the run, kept with the sweep.
    type: dict
    default: {}
  options:
    description: Options as C(treeline_request) returns them, kept with the sweep.
    type: dict
    default: {}
  hosts:
    description:
      - To open, host to what C(treeline_preflight) returned (C(engine), C(engine_build), C(model), C(driver),
        C(hardware_class) or C(hardware_class_hint), C(lease_holder)). Other keys are not looked at.
      - To close, host to C(restored), C(reason) and C(broke_off).
    type: dict
    default: {}
  sweep_dir:
    description: Folder of the sweep. Needed to close.
    type: path
  fail_on_bad:
    description: Whether a cell that is not good fails the run. The default is the option kept with the sweep.
    type: bool
  forecast_trial_s:
    description:
      - To close, the seconds that one trial is expected to take, as C(treeline_claim) was told them. A sweep
        that has no time left for one more trial has ended by its C(max_hours).
    type: float
author:
  - Treeline
"""

EXAMPLES = r"""
- name: Resume an unfinished sweep of this plan, or open a new one
  treeline_sweep:
    state: open
    results_dir: "{{ playbook_dir }}/../results"
    plan: "{{ __treeline_request.plan }}"
    plan_hash: "{{ __treeline_request.plan_hash }}"
    dialect: "{{ __treeline_request.dialect }}"
    options: "{{ __treeline_request.options }}"
    hosts: {lab1: "{{ hostvars['lab1'].__treeline_preflight }}"}
  register: __treeline_sweep

- name: Close the sweep
  treeline_sweep:
    state: closed
    sweep_dir: "{{ __treeline_sweep.sweep_dir }}"
    hosts: {lab1: {restored: true, reason: ""}}
"""

RETURN = r"""
sweep_id:
  description: Identity of the sweep, its begin and its plan hash.
  returned: state is open
  type: str
sweep_dir:
  description: Folder of the sweep.
  returned: state is open
  type: str
resumed:
  description: Whether an earlier run's folder goes on.
  returned: state is open
  type: bool
reason:
  description: Why it was resumed or begun.
  returned: state is open
  type: str
notes:
  description: Sweeps that were passed over and why, interrupted trials, lines that were never finished.
  returned: state is open
  type: list
interrupted:
  description: Trials without a verdict whose controller is gone.
  returned: state is open
  type: list
stale_leases:
  description: Host to the holder of a lease that still runs although its process is gone.
  returned: state is open
  type: dict
controller:
  description: The ansible-playbook process, as C(host), C(boot_id), C(pid) and C(pid_start) (clock ticks).
  returned: state is open
  type: dict
outcome:
  description: complete, limit, stopped or incomplete.
  returned: state is closed
  type: str
finished:
  description: Whether every item of the plan is settled and no host is owed its services.
  returned: state is closed
  type: bool
failures:
  description: What makes the run fail, one sentence each.
  returned: state is closed
  type: list
cells:
  description: How many cells are good, bad, mixed, unknown and open.
  returned: state is closed
  type: dict
"""
