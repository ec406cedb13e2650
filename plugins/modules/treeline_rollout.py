"""Documentation of the action plugin of the same name; it runs on the controller."""

DOCUMENTATION = r"""
module: treeline_rollout
short_description: Choose a recorded configuration for a fleet, judge its hosts, record the rollout
description:
  - C(checked) only looks whether the arguments can be understood. C(open) chooses a row for each hardware
    class, refuses one that does not fit the hosts, and begins or resumes a rollout. C(judged) holds what a
    load gave against the gates and the record. C(recorded) writes how a host was left, C(closed) how the run
    ended. C(intended) tells what a host is meant to serve, C(wave) in which wave of a rollout it was, and
    C(noted) writes what became of it after the rollout was over.
  - Runs on the controller; opens no connection.
options:
  state:
    description: What is wanted.
    type: str
    choices: [checked, open, judged, recorded, closed, intended, noted, wave]
    required: true
  results_dir:
    description: Folder that holds the sweeps; rollouts are kept in its C(rollouts).
    type: path
  rollout_dir:
    description: Folder of the rollout.
    type: path
  rollout_id:
    description: A rollout; with C(wave), C(last) is the newest one that has this host.
    type: str
  config:
    description: C(best), or the id of a trial.
    type: str
  objective:
    description: C(throughput@N), C(latency@N) or C(goodput).
    type: str
  slo_ttft_ms:
    description: Highest allowed 90th percentile of the time to the first token, in ms.
    type: float
  slo_tpot_ms:
    description: Highest allowed 90th percentile of the time per output token, in ms.
    type: float
  waves:
    description: Sizes of the waves of each hardware class, such as C(1, 25 %, 100 %); the last one repeats.
    type: str
  max_age_days:
    description: How old a row may be, in days.
    type: float
  allow_mismatch:
    description: Roll out although the row was measured with something else than the hosts have.
    type: bool
    default: false
  hosts:
    description: What preflight returned, by host.
    type: dict
    default: {}
  load:
    description: What M(treeline_load) returned on the host.
    type: dict
    default: {}
  host_state:
    description: How the host was left.
    type: str
    choices: [deployed, unchanged, rolled_back, broken, released]
  reason:
    description: Why.
    type: str
    default: ""
  restarted:
    description: Whether the service was restarted.
    type: bool
    default: false
  serving:
    description: Whether the service is proven to serve.
    type: bool
  registered:
    description: Whether a router knows the host as a worker; not given without a router.
    type: bool
  before:
    description: What the host served before.
    type: dict
    default: {}
  started_at:
    description: When the host's turn began.
    type: str
  inventory:
    description: C(key) and C(dialect) by the inventory; they count where no rollout left its configuration.
    type: dict
author: [Treeline]
"""

EXAMPLES = r"""
- name: What goes where
  treeline_rollout:
    state: open
    results_dir: results
    config: best
    objective: throughput@32
    waves: 1, 25 %, 100 %
    max_age_days: 30
    hosts: "{{ {inventory_hostname: __treeline_preflight} }}"
"""

RETURN = r"""
rollout_id:
  description: The rollout (C(open)).
  returned: C(open)
  type: str
order:
  description: Hosts in the order of their turns.
  returned: C(open)
  type: list
serial:
  description: How many hosts each wave has.
  returned: C(open)
  type: list
chosen:
  description: What each host gets, with the row it comes from.
  returned: C(open)
  type: dict
passed:
  description: Whether the host may keep the configuration.
  returned: C(judged)
  type: bool
reason:
  description: Why it may not, or that it may.
  returned: C(judged), C(closed)
  type: str
undone:
  description: What a deployment of the inventory would change of what a rollout left on the host.
  returned: C(intended)
  type: list
wave:
  description: Number of the wave; 0 where the host had no part.
  returned: C(wave)
  type: int
outcome:
  description: C(complete), C(stopped) or C(incomplete).
  returned: C(closed)
  type: str
"""
