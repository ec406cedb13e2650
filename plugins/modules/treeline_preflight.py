#!/usr/bin/python
"""Look at a host before a sweep, without changing it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: treeline_preflight
short_description: Refuse a host that a sweep would harm, or that would spoil its measurements
description:
  - Reads only. Reports everything that speaks against a sweep on this host in one message.
options:
  found_units:
    description: Units that serve production on this host.
    type: list
    elements: str
    required: true
  trial_unit:
    description: The unit that trials run as.
    type: str
    required: true
  trial_unit_text:
    description: The rendered trial unit, to say what the found unit has that the trial has not.
    type: str
    default: ""
  production_port:
    description: Port of the production service.
    type: int
    required: true
  trial_port:
    description: Port that trials listen on.
    type: int
    required: true
  model_paths:
    description: Models that the engine loads; absolute ones must exist.
    type: list
    elements: str
    default: []
  engine_python:
    description: Interpreter that has the engine.
    type: str
  engine_distribution:
    description: Name of the engine's Python package.
    type: str
  interrupt_traffic:
    description: Whether a found service with requests in work may be stopped.
    type: bool
    default: false
  replaces_found:
    description: Whether the found services get a new configuration, and need not come back as they run now.
    type: bool
    default: false
  served_urls:
    description: Address of a found unit's HTTP service, by unit, where its command line does not tell it.
    type: dict
    default: {}
  api_key_file:
    description: File on the host whose first line is the key for the found services' HTTP interface.
    type: path
  controller:
    description: Who asks (C(host)); another controller's live lease is a problem then.
    type: dict
  gpu_query:
    description: The GPU query tool, a name or path; C(none) looks at no GPU.
    type: str
    default: nvidia-smi
  lease_s:
    description:
      - Seconds of the lease that the sweep will arm; a found unit that may take as long to stop is a problem.
      - Not given, it is not checked.
    type: int
attributes:
  check_mode:
    support: full
author: [Treeline]
"""

EXAMPLES = r"""
- name: Look at the host
  treeline_preflight:
    found_units: [sglang-ddtree.service]
    trial_unit: sglang-ddtree-trial.service
    production_port: 30000
    trial_port: 31990
"""

RETURN = r"""
problems:
  description: What speaks against a sweep here; empty on success.
  returned: always
  type: list
notes:
  description: What could not be told.
  returned: always
  type: list
found:
  description: The found units with their files, states, command lines and answers; secrets hidden.
  returned: success
  type: list
services_down:
  description: Units that will be down during the sweep.
  returned: success
  type: list
differences:
  description: Directives that only the found unit (C(only_found)) or only the trial (C(only_trial)) has.
  returned: success
  type: dict
hardware_class_hint:
  description: GPU models and counts, or C(cpu).
  returned: success
  type: str
gpu_tool:
  description: Path of the GPU query tool, empty where there is none.
  returned: success
  type: str
gpu_state:
  description: What each GPU said of itself; clocks, power, memory, error counters and flags.
  returned: success
  type: list
gpu_holders:
  description: Processes that hold GPU memory, as M(treeline_begin) returns them.
  returned: success
  type: list
engine_build:
  description: The engine's package and version.
  returned: success
  type: str
lease_holder:
  description: Who holds a live lease on this host, and its C(seconds_left).
  returned: success
  type: dict
snapshot_present:
  description: Sweep whose snapshot is on this host.
  returned: success
  type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.treeline_target import preflight, units


def main() -> None:
    """Parse the arguments, look, return."""
    module = AnsibleModule(
        argument_spec={
            "found_units": {"type": "list", "elements": "str", "required": True},
            "trial_unit": {"type": "str", "required": True},
            "trial_unit_text": {"type": "str", "default": ""},
            "production_port": {"type": "int", "required": True},
            "trial_port": {"type": "int", "required": True},
            "model_paths": {"type": "list", "elements": "str", "default": []},
            "engine_python": {"type": "str"},
            "engine_distribution": {"type": "str"},
            "interrupt_traffic": {"type": "bool", "default": False},
            "replaces_found": {"type": "bool", "default": False},
            "served_urls": {"type": "dict", "default": {}},
            "api_key_file": {"type": "path", "no_log": False},
            "controller": {"type": "dict"},
            "lease_s": {"type": "int"},
            "gpu_query": {"type": "str", "default": "nvidia-smi"},
        },
        supports_check_mode=True,
    )
    given = dict(module.params)
    if not given["found_units"]:
        module.fail_json(
            msg="treeline_found_units is empty: name at least one unit, such as sglang-ddtree.service"
        )
    given["found_units"] = [units.full_name(name) for name in given["found_units"]]
    given["trial_unit"] = units.full_name(given["trial_unit"])
    given["served_urls"] = {units.full_name(name): str(url) for name, url in given["served_urls"].items()}
    report = preflight.look(preflight.Request(**given))
    result = {**report.facts, "problems": report.problems, "notes": report.notes}
    if report.problems:
        module.fail_json(msg="\n- ".join(["this host cannot be swept:", *report.problems]), **result)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
