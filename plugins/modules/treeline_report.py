"""Documentation of the action plugin of the same name; it runs on the controller."""

DOCUMENTATION = r"""
module: treeline_report
short_description: Summarise a sweep and print its table
description:
  - Writes C(summary.csv) and C(summary.md) into the folder of a sweep and prints the table. Trials that are
    no part of the main table (repeats, interrupted attempts) go to C(summary-other.csv).
  - Works on unfinished sweeps. Runs on the controller; opens no connection.
options:
  sweep_dir:
    description: Folder of the sweep.
    type: path
    required: true
  hosts:
    description: Per host C(restored) and C(reason), to say how each was left.
    type: dict
  width:
    description: Columns of the printed table. The default is C(COLUMNS) of the environment, else 160.
    type: int
  page:
    description: Whether C(report.html) is drawn, too; what cannot be drawn in two minutes is a remark.
    type: bool
    default: true
author: [Treeline]
"""

EXAMPLES = r"""
- name: Report
  treeline_report:
    sweep_dir: "{{ __treeline_sweep.sweep_dir }}"
"""

RETURN = r"""
csv:
  description: Path of C(summary.csv).
  returned: success
  type: str
markdown:
  description: Path of C(summary.md).
  returned: success
  type: str
trials:
  description: Rows of the main table.
  returned: success
  type: int
counts:
  description: Number of trials by status, main table only.
  returned: success
  type: dict
"""
