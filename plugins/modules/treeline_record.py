"""Documentation of the action plugin of the same name; it runs on the controller."""

DOCUMENTATION = r"""
module: treeline_record
short_description: Make the verdict on a trial and write it down
description:
  - Unpacks the evidence, reads the journal, evaluates every gate and decides status, class, phase and step.
    Writes measurements and single requests, and last of all the C(finished) line.
  - A trial that went badly is a record like any other. The task fails only when something cannot be written;
    lines written before are intact then, and the trial is run again.
  - Missing or damaged evidence does not fail the task; the record and the output say so.
  - Runs on the controller and opens no connection.
options:
  sweep_dir:
    description: Folder of the sweep.
    type: path
    required: true
  trial_id:
    description: The trial as C(treeline_claim) returned it.
    type: str
    required: true
  item:
    description: The item as C(treeline_claim) returned it.
    type: dict
    required: true
  steps:
    description:
      - Registered results under C(begin), C(configure), C(restart), C(ready), C(load) and C(evidence).
      - Absent, empty and skipped ones have not run; the verdict rests on failed and unreachable ones too.
    type: dict
    required: true
  host:
    description: Checked against the claim where it is given.
    type: str
  evidence_archive:
    description: Fetched archive of the evidence; removed once it is unpacked.
    type: path
  dialect:
    description: Name or path of the dialect, or a mapping with C(name), for the verify width.
    type: raw
  options:
    description: Options of the sweep; C(baseline) is named with the canaries.
    type: dict
    default: {}
  points_asked:
    description: Rows that the load was to give; not given, one for each client key.
    type: int
  failure:
    description: What ended the trial's block, used where no module said more.
    type: str
    default: ""
author:
  - Treeline
"""

EXAMPLES = r"""
- name: Make the verdict and write it down
  treeline_record:
    sweep_dir: "{{ __treeline_sweep.sweep_dir }}"
    trial_id: "{{ __treeline_claim.trial_id }}"
    item: "{{ __treeline_claim.item }}"
    dialect: "{{ __treeline_request.dialect }}"
    evidence_archive: "{{ __treeline_fetched.dest }}"
    steps:
      begin: "{{ __treeline_begin }}"
      ready: "{{ __treeline_ready }}"
      load: "{{ __treeline_load }}"
      evidence: "{{ __treeline_evidence }}"
"""

RETURN = r"""
record:
  description: The finished line.
  returned: success
  type: dict
status:
  description: Its status.
  returned: success
  type: str
measurements:
  description: Rows written to measurements.jsonl.
  returned: success
  type: int
remarks:
  description: What is missing or cut in the evidence.
  returned: success
  type: list
"""
