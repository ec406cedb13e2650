#!/usr/bin/python
"""Look at a production service: unit, served arguments, drift, requests in work, last journal lines."""

from __future__ import annotations

DOCUMENTATION = r"""
module: treeline_health
short_description: Say whether a production service is as intended
description:
  - Reads only. Compares the running unit with its files, and what it serves with what is intended.
  - Never fails because of what it finds; C(healthy) and C(problems) tell.
options:
  unit:
    description: The production unit.
    type: str
    required: true
  url:
    description: Where the service answers, where its command line does not tell.
    type: str
  api_key_file:
    description: File on the host whose first line is the API key of the service.
    type: path
  expected_served:
    description: Keys of C(/server_info) with the values that are intended.
    type: dict
    default: {}
  expected_enabled:
    description: Whether the unit is to start at boot.
    type: bool
    default: true
  journal_lines:
    description: How many of the unit's last journal lines are returned.
    type: int
    default: 2000
attributes:
  check_mode:
    support: full
author: [Treeline]
"""

EXAMPLES = r"""
- name: Is it well
  treeline_health:
    unit: sglang-ddtree.service
    expected_served: {speculative_ddtree_budget: 16}
"""

RETURN = r"""
healthy:
  description: Whether nothing is wrong.
  returned: success
  type: bool
problems:
  description: What is wrong or has drifted, in sentences.
  returned: success
  type: list
running:
  description: Requests in work; null where the service does not tell.
  returned: success
  type: int
journal:
  description: The unit's last journal lines as C(journalctl -o json) prints them, gzip, base64.
  returned: success
  type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.treeline_target import health, http, systemd, units


def main() -> None:
    """Parse the arguments, look, return."""
    module = AnsibleModule(
        argument_spec={
            "unit": {"type": "str", "required": True},
            "url": {"type": "str"},
            "api_key_file": {"type": "path", "no_log": False},
            "expected_served": {"type": "dict", "default": {}},
            "expected_enabled": {"type": "bool", "default": True},
            "journal_lines": {"type": "int", "default": 2000},
        },
        supports_check_mode=True,
    )
    given = module.params
    spec = health.Spec(
        units.full_name(given["unit"]),
        given["url"],
        given["api_key_file"],
        given["expected_served"],
        given["expected_enabled"],
        given["journal_lines"],
    )
    try:
        result = health.look(spec)
    except (OSError, http.KeyFileError, systemd.CommandError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
