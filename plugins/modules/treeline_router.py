#!/usr/bin/python
"""Take a worker out of an SGLang router, or put it back."""

from __future__ import annotations

DOCUMENTATION = r"""
module: treeline_router
short_description: Drain a worker of an SGLang router, or register it
description:
  - C(drained) takes the worker off the router's list and waits until it is idle; C(registered) puts it on the
    list and waits until the router calls it healthy. C(looked) only tells.
  - A drain that does not end in time, or would leave the router without a worker, fails; the worker is on the
    list then if it was before.
options:
  state:
    description: What is wanted.
    type: str
    choices: [drained, registered, looked]
    required: true
  router_url:
    description: The router as this host reaches it.
    type: str
    required: true
  worker_url:
    description: The worker as the router knows it.
    type: str
    required: true
  router_key_file:
    description: File on this host whose first line is the key of the router's own interface.
    type: path
  api_key_file:
    description: File on this host whose first line is the API key of the worker.
    type: path
  timeout:
    description: Seconds until it must be done.
    type: int
    default: 300
  allow_last:
    description: Drain also where no other healthy worker is left.
    type: bool
    default: false
attributes:
  check_mode:
    support: full
author: [Treeline]
"""

EXAMPLES = r"""
- name: Drain
  treeline_router:
    state: drained
    router_url: http://router:31000
    worker_url: http://10.0.0.7:30000
"""

RETURN = r"""
listed:
  description: Whether the worker is on the router's list now.
  returned: success
  type: bool
healthy:
  description: Whether the router calls it healthy.
  returned: success
  type: bool
note:
  description: What could not be made sure of; empty where there is nothing to say.
  returned: success
  type: str
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.treeline_target import http, router


def main() -> None:
    """Parse the arguments, do it, return."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["drained", "registered", "looked"], "required": True},
            "router_url": {"type": "str", "required": True},
            "worker_url": {"type": "str", "required": True},
            "router_key_file": {"type": "path", "no_log": False},
            "api_key_file": {"type": "path", "no_log": False},
            "timeout": {"type": "int", "default": 300},
            "allow_last": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    given = module.params
    try:
        one = router.Router(
            given["router_url"],
            given["worker_url"],
            http.read_key(given["router_key_file"]),
            http.read_key(given["api_key_file"]),
        )
        changed, note = _change(one, given, module.check_mode)
        now = one.find()
    except (http.KeyFileError, router.RouterError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=changed, listed=bool(now), healthy=any(worker.healthy for worker in now), note=note
    )


def _change(one: router.Router, given: dict[str, Any], dry: bool) -> tuple[bool, str]:
    if given["state"] == "looked":
        return False, ""
    if dry:
        return bool(one.find()) == (given["state"] == "drained"), ""
    if given["state"] == "drained":
        return one.drain(given["timeout"], given["allow_last"])
    return one.register(given["timeout"]), ""


if __name__ == "__main__":
    main()
