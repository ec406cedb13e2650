#!/usr/bin/python
"""Load one service life on the host itself: canaries, warm-up, every client key, canaries under load."""

from __future__ import annotations

DOCUMENTATION = r"""
module: treeline_load
short_description: Measure every client key of one service life
description:
  - Asks the canaries one by one, warms up, loads every client key as a closed loop, busiest first, and asks
    the canaries again while the busiest load is kept up.
  - Ends within two seconds of the unit's death, and in any case when its bound is reached; what was measured
    until then is returned.
  - Failed requests are data. The module fails unless the outcome is C(done).
requirements: [aiohttp >= 3.8]
options:
  unit:
    description: The unit whose death ends the load; not given, none is watched.
    type: str
  invocation_id:
    description: The service life that is loaded, as M(treeline_ready) returned it. Needed with I(unit).
    type: str
  found_units:
    description: Units that serve production; one of them becoming active tells a preemption from a death.
    type: list
    elements: str
    default: []
  base_url:
    description: Where the service answers.
    type: str
    required: true
  client_keys:
    description: Points to measure, each as C(concurrency) and C(context) (prompt length in tokens, about).
    type: list
    elements: dict
    required: true
  canaries:
    description:
      - Questions with known answers, each as C(id), C(prompt) or C(messages), C(expect) (a regular
        expression), C(max_tokens) and C(match) (C(search) or C(fullmatch)).
    type: list
    elements: dict
    default: []
  prompts:
    description: Base texts; each request gets a window of them that begins with letters of its own.
    type: list
    elements: str
    required: true
  prompts_seed:
    description: The same seed gives the same prompts.
    type: str
    required: true
  requests_per_key:
    description: Measured requests of each point; 0 is twice the concurrency, at least 8 and at most 256.
    type: int
    default: 0
  max_tokens:
    description: Tokens that each measured request generates.
    type: int
    default: 128
  connect_timeout_s:
    description: Bound for connecting, in seconds.
    type: int
    default: 10
  chunk_timeout_s:
    description: Longest silence inside an answer, in seconds; the wait for its beginning does not count.
    type: int
    default: 60
  request_timeout_s:
    description: Bound for one request with its queueing, in seconds.
    type: int
    default: 600
  timeout_s:
    description: Bound for the whole load, in seconds.
    type: int
    default: 1800
  out_dir:
    description: Folder on the host for the records of single requests.
    type: path
    required: true
  api_key_file:
    description: File on the host whose first line is the API key of the service.
    type: path
  lease:
    description: The lease, as C(seconds) and C(holder); not given, none is looked after.
    type: dict
attributes:
  check_mode:
    support: none
author: [Treeline]
"""

EXAMPLES = r"""
- name: Measure every client key of this life, busiest first
  treeline_load:
    unit: sglang-ddtree-trial.service
    invocation_id: 0e0f6c0c5a3b4b6f8f4c3d2e1f0a9b8c
    base_url: http://127.0.0.1:31990
    client_keys: [{concurrency: 32}, {concurrency: 8}, {concurrency: 1}]
    canaries: [{id: capital, prompt: "What is the capital of France?", expect: Paris, max_tokens: 24}]
    prompts: ["{{ lookup('file', 'prompts/code.txt') }}"]
    prompts_seed: 1a2b3c4d
    out_dir: /run/treeline/evidence/20260101T000000Z-1a2b3c4d-0001
"""

RETURN = r"""
outcome:
  description: One of C(done), C(died), C(preempted), C(timeout) and C(lease_lost).
  returned: always
  type: str
canaries:
  description: Answers, each with C(id), C(phase) (C(single), C(busiest)), C(ok), C(got), C(expect), C(error).
  returned: always
  type: list
points:
  description: One measurement for each client key that was begun.
  returned: always
  type: list
engine:
  description: C(name) of the engine, whether its times are C(simulated), and its highest C(overrun_share).
  returned: always
  type: dict
requests_file:
  description: Compressed NDJSON on the host with one line for each request, without any text.
  returned: always
  type: str
garbled_samples:
  description: Beginnings of at most three outputs that look garbled.
  returned: always
  type: list
died_at_monotonic:
  description: When the unit became inactive, in seconds of CLOCK_MONOTONIC, where it did.
  returned: always
  type: float
returned_at_monotonic:
  description: When this module had its result, by the same clock.
  returned: always
  type: float
"""

import signal

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible.module_utils.treeline_target import files, http, lease, load_spec, systemd, units

try:
    from ansible.module_utils.treeline_target import load_run
except ImportError as error:  # aiohttp is not part of Python
    MISSING = str(error)
else:
    MISSING = ""

ERRORS = (
    OSError,
    ValueError,
    files.StateFileError,
    http.KeyFileError,
    lease.LeaseError,
    systemd.CommandError,
)
# After the total bound has ended the load, the module needs some time to write its result.
GRACE_S = 60


def main() -> None:
    """Parse the arguments, load, return."""
    module = AnsibleModule(
        argument_spec={
            "unit": {"type": "str"},
            "invocation_id": {"type": "str"},
            "found_units": {"type": "list", "elements": "str", "default": []},
            "base_url": {"type": "str", "required": True},
            "client_keys": {"type": "list", "elements": "dict", "required": True},
            "canaries": {"type": "list", "elements": "dict", "default": []},
            "prompts": {"type": "list", "elements": "str", "required": True},
            "prompts_seed": {"type": "str", "required": True},
            "requests_per_key": {"type": "int", "default": 0},
            "max_tokens": {"type": "int", "default": 128, "no_log": False},
            "connect_timeout_s": {"type": "int", "default": 10},
            "chunk_timeout_s": {"type": "int", "default": 60},
            "request_timeout_s": {"type": "int", "default": 600},
            "timeout_s": {"type": "int", "default": 1800},
            "out_dir": {"type": "path", "required": True},
            "api_key_file": {"type": "path"},
            "lease": {"type": "dict"},
        },
        required_together=[("unit", "invocation_id")],
    )
    if MISSING:
        advice = "Set treeline_target_python to a Python on this host that has aiohttp (SGLang's has)."
        module.fail_json(msg=f"{missing_required_lib('aiohttp')}: {MISSING}. {advice}")
    # The last resort for a load whose controller is gone and whose event loop hangs: the kernel ends it.
    signal.alarm(module.params["timeout_s"] + GRACE_S)
    try:
        result = _load(module.params)
    except ERRORS as error:
        lost = isinstance(error, lease.LeaseLostError)
        module.fail_json(msg=str(error), lease_lost=lost, **({"outcome": "lease_lost"} if lost else {}))
    answer = {
        "changed": True,
        "lease_lost": result["outcome"] == "lease_lost",
        # Every result carries its arguments; the texts would be most of it.
        "invocation": {"module_args": {**module.params, "prompts": len(module.params["prompts"])}},
        **result,
    }
    if result["outcome"] == "done":
        module.exit_json(**answer)
    module.fail_json(**answer)


def _load(given: dict) -> dict:
    """The result of the load that the module's arguments describe."""
    spec = load_spec.Spec(
        base_url=given["base_url"],
        client_keys=load_spec.parse_client_keys(given["client_keys"]),
        canaries=load_spec.parse_canaries(given["canaries"]),
        prompts=given["prompts"],
        prompts_seed=given["prompts_seed"],
        out_dir=given["out_dir"],
        requests_per_key=given["requests_per_key"],
        max_tokens=given["max_tokens"],
        limits=load_spec.Limits(
            connect_s=given["connect_timeout_s"],
            chunk_s=given["chunk_timeout_s"],
            request_s=given["request_timeout_s"],
            total_s=given["timeout_s"],
        ),
        api_key=http.read_key(given["api_key_file"]),
    )
    with lease.Keeper(given["lease"]) as keeper:
        life = load_run.Life(
            unit=units.full_name(given["unit"]) if given["unit"] else None,
            invocation_id=given["invocation_id"] or "",
            found_units=[units.full_name(name) for name in given["found_units"]],
            lease_lost=lambda: keeper.lost,
        )
        return load_run.run(spec, life)


if __name__ == "__main__":
    main()
