"""Documentation of the action plugin of the same name; it runs on the controller."""

DOCUMENTATION = r"""
module: treeline_health_report
short_description: Say how every host is, in one line each
description:
  - Fails when a host is not well. Runs on the controller; opens no connection.
options:
  hosts:
    description: What the filter C(treeline_host_health) made of each host's variables.
    type: dict
    required: true
author: [Treeline]
"""

EXAMPLES = r"""
- name: Say how they are
  treeline_health_report:
    hosts: "{{ {'gpu1': hostvars['gpu1'] | treeline_host_health} }}"
"""

RETURN = r"""
hosts:
  description: Whether each host is healthy, and its problems.
  returned: always
  type: dict
"""
