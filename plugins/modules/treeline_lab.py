#!/usr/bin/python
"""Boot, remove or show the lab hosts of this machine: a door to the package treeline_lab."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: treeline_lab
short_description: Boot, remove or show lab hosts on this machine
description:
  - Lab hosts run real systemd and sshd under systemd-nspawn, on overlays of one cached root file system.
  - Runs on the controller as root, over a local connection, with the controller's Python interpreter.
  - Repeating it changes nothing. Labs of other names are never touched.
version_added: "0.1.0"
author: Treeline
options:
  name:
    description: Name of the lab.
    type: str
    default: default
  dir:
    description: State directory; root file systems and labs are kept below it.
    type: path
    required: true
  hosts:
    description:
      - Host names and the IPv4 addresses they get.
      - Required for O(state=up). With O(state=down), only these hosts are removed; without, the whole lab.
    type: dict
    default: {}
  state:
    description:
      - V(up) boots what does not run and waits until all hosts answer.
      - V(down) removes hosts with their disks.
      - V(status) shows what is there.
    type: str
    choices: [up, down, status]
    default: up
  binds:
    description: Read-only binds of hosts that are created now, each C(SOURCE) or C(SOURCE:DESTINATION).
    type: list
    elements: str
    default: []
  timeout:
    description: Seconds to wait for the hosts. The time to build the root file system is not counted.
    type: float
    default: 90
  package_dir:
    description: Directory that holds the package treeline_lab, for a Python where it is not installed.
    type: path
attributes:
  check_mode:
    description: Says what would change and changes nothing.
    support: full
  diff_mode:
    description: There is no text to compare.
    support: none
"""

EXAMPLES = r"""
- name: Boot two lab hosts
  treeline_lab:
    dir: "{{ treeline_lab_dir }}"
    hosts:
      lab1: 10.66.0.11
      lab2: 10.66.0.12
  become: true

- name: Remove the lab
  treeline_lab:
    dir: "{{ treeline_lab_dir }}"
    state: down
  become: true
"""

RETURN = r"""
hosts:
  description: The lab's hosts after the run; name, address and state (V(running), V(off) or V(unfinished)).
  returned: always
  type: list
  elements: dict
  sample: [{name: lab1, address: 10.66.0.11, state: running}]
done:
  description: What was done (in check mode, would be done), by host name.
  returned: when O(state) is V(up) or V(down)
  type: dict
  sample: {created: [lab1], booted: [], plugged_in: [], unchanged: [], removed: []}
degraded:
  description: Failed units of hosts that are up but degraded.
  returned: when O(state=up)
  type: dict
messages:
  description: What took time, such as building the root file system.
  returned: always
  type: list
  elements: str
"""

import dataclasses
import sys
import traceback
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule, missing_required_lib


def run(lab: Any, params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Do what `params` ask for with `lab` and return the module's result."""
    hosts = {str(name): str(address) for name, address in params["hosts"].items()}
    if params["state"] == "status":
        return {"changed": False}
    if params["state"] == "down":
        known = [item.name for item in lab.status() if not hosts or item.name in hosts]
        removed = known if check_mode else lab.down(hosts)
        return {"changed": bool(removed), "done": {"removed": removed}}
    result = lab.plan(hosts) if check_mode else lab.up(hosts, params["binds"], params["timeout"])
    done = dataclasses.asdict(result)
    return {"changed": result.changed, "degraded": done.pop("degraded"), "done": done}


def main() -> None:
    """Read the arguments, do it, answer."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "default": "default"},
            "dir": {"type": "path", "required": True},
            "hosts": {"type": "dict", "default": {}},
            "state": {"type": "str", "choices": ["up", "down", "status"], "default": "up"},
            "binds": {"type": "list", "elements": "str", "default": []},
            "timeout": {"type": "float", "default": 90},
            "package_dir": {"type": "path"},
        },
        required_if=[("state", "up", ("hosts",))],
        supports_check_mode=True,
    )
    if module.params["package_dir"]:
        sys.path.append(module.params["package_dir"])
    try:
        from treeline_lab import Lab, LabError
    except ImportError as error:
        module.fail_json(
            msg=missing_required_lib(error.name or "treeline_lab"), exception=traceback.format_exc()
        )
    messages: list[str] = []
    try:
        lab = Lab(module.params["name"], Path(module.params["dir"]), messages.append)
        result = run(lab, module.params, module.check_mode)
        states = [dataclasses.asdict(item) for item in lab.status()]
    except LabError as error:
        module.fail_json(msg=str(error), messages=messages)
    module.exit_json(**result, hosts=states, messages=messages)


if __name__ == "__main__":
    main()
