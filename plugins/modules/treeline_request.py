"""Documentation of the action plugin of the same name; it runs on the controller."""

DOCUMENTATION = r"""
module: treeline_request
short_description: Check what the user asks for and make the plan of a sweep
description:
  - Reads the public variables of a sweep as they were given (text of C(-e), numbers, booleans, lists) and
    makes a plan.
  - Fails before any host is touched, with every problem at once; each names the variable, its value, where it
    came from and what is allowed. Names given with C(-e) that look like a public variable and are none fail
    with the name that was probably meant.
  - Runs on the controller and changes nothing. It prints the forecast of the plan.
options:
  variables:
    description: Public name to value; null is not given.
    type: dict
    default: {}
  extra_vars_names:
    description: Names to treat as given with C(-e), besides those that were.
    type: list
    elements: str
  known_names:
    description:
      - Further declared names, which are no typing errors. Defaults of the repository's roles are known.
    type: list
    elements: str
  rows_prior:
    description: First guess of the largest maxreq x (budget + 1). It orders and defaults, it never forbids.
    type: int
    default: 1200
  group:
    description: Inventory group of the targets.
    type: str
    default: sglang
  group_hosts:
    description: Hosts of that group. An empty list fails; not given leaves it unchecked.
    type: list
    elements: str
  found_units:
    description: Units that are down while trials run, for the forecast.
    type: list
    elements: str
  forecast_load_s:
    description: Seconds until the engine serves, for the forecast.
    type: float
    default: 360
  forecast_measure_s:
    description: Seconds of load in one trial, for the forecast.
    type: float
    default: 120
  results_dir:
    description: Earlier sweeps; what their trials took replaces the guesses of the forecast.
    type: path
author:
  - Treeline
"""

EXAMPLES = r"""
- name: Understand the request and make the plan
  treeline_request:
    variables:
      budget: "{{ budget | default(none) }}"
      graphs: "{{ graphs | default(none) }}"
    group: sglang
    group_hosts: "{{ groups['sglang'] | default([]) }}"
  register: __treeline_request
"""

RETURN = r"""
plan:
  description: Kind, items in the order in which they are run, and what is left out with the reason.
  returned: success
  type: dict
plan_hash:
  description: Eight hex digits; equal plans in another order have the same.
  returned: success
  type: str
dialect:
  description: Name of the dialect, or the absolute path of a dialect file.
  returned: success
  type: str
axes:
  description: The values that occur in the plan, for each variable.
  returned: success
  type: dict
options:
  description: ready_timeout, fail_on_bad, interrupt_traffic, max_trials_per_run and baseline, with defaults.
  returned: success
  type: dict
variables:
  description: The variables that were given.
  returned: success
  type: dict
notes:
  description: What was read otherwise than it was written.
  returned: success
  type: list
  elements: str
forecast:
  description: Lines that say what will run, for how long and what is down meanwhile.
  returned: success
  type: list
  elements: str
forecast_trial_s:
  description: Seconds that one trial is expected to take, all its parts together.
  returned: success
  type: float
"""
