"""Documentation of the action plugin of the same name; it runs on the controller."""

DOCUMENTATION = r"""
module: treeline_claim
short_description: Ask for the next trial of a host
description:
  - Reads what became of the sweep's trials, decides by the plan what this host does next, and writes the
    claim down before it returns. The decision and its reason are printed with progress and time left.
  - Where all that is left is being run by other hosts and may come back, it waits for at most
    O(wait_timeout_s) and then returns the state C(wait); the caller renews its lease and asks again.
  - Runs on the controller and opens no connection.
options:
  sweep_dir:
    description: Folder of the sweep.
    type: path
    required: true
  host:
    description: Who asks.
    type: str
    required: true
  hardware_class:
    description: Hosts of one class share the plan; every class does all of it.
    type: str
    required: true
  controller:
    description: The controller as C(treeline_sweep) returned it.
    type: dict
    required: true
  host_lost:
    description: The host did not come back after its last trial; it gets no further one.
    type: bool
    default: false
  wait_timeout_s:
    description: Seconds to wait for other hosts. Keep it below the lease.
    type: float
    default: 180
  trial_bound_s:
    description:
      - Seconds after which another host's claim without a verdict counts as given up.
      - The default is the sweep's ready_timeout and 70 minutes.
    type: float
  forecast_trial_s:
    description: Seconds of one trial, for the time left until the first one is done.
    type: float
author:
  - Treeline
"""

EXAMPLES = r"""
- name: Claim the next item
  treeline_claim:
    sweep_dir: "{{ __treeline_sweep.sweep_dir }}"
    host: "{{ inventory_hostname }}"
    hardware_class: "{{ treeline_hardware_class }}"
    controller: "{{ __treeline_sweep.controller }}"
  register: __treeline_claim
"""

RETURN = r"""
state:
  description: >-
    item (run it), wait (ask again), done (nothing left for this run), stop (the sweep stops), out (this host
    does no more trials).
  returned: always
  type: str
item:
  description: What to run; empty unless the state is item.
  returned: always
  type: dict
trial_id:
  description: Identity of the claimed trial; empty unless the state is item.
  returned: always
  type: str
k:
  description: The how-many-eth cell of the plan this is.
  returned: always
  type: int
n:
  description: Cells of the plan.
  returned: always
  type: int
reason:
  description: Why, in words.
  returned: always
  type: str
message:
  description: The line that was printed.
  returned: always
  type: str
"""
