#!/usr/bin/python
"""Load one service life on the host: canaries, warm-up, every client key, canaries under load, soak."""

from __future__ import annotations

DOCUMENTATION = r"""
module: treeline_load
short_description: Measure every client key of one service life
description:
  - Asks the canaries one by one, warms up, loads every client key, busiest first, asks the canaries again
    while the busiest load is kept up, repeats the keys as asked, and keeps the busiest load up for a soak.
  - Ends within two seconds of the unit's death, when the engine holds requests and makes no token for
    I(no_token_timeout_s), and in any case when its bound is reached; what was measured by then is returned.
  - Failed requests are data. The module fails unless the outcome is C(done).
  - While it runs, C(progress.json) in I(out_dir) says how far it is, at most once a second.
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
    description:
      - Base texts; each request gets a window of them that begins with letters of its own. Neither this nor
        I(prompt_files) given, the texts that ship with Treeline are taken.
    type: list
    elements: str
    default: []
  prompt_files:
    description:
      - Files on the controller whose prompts are sent instead; plain JSON lines with C(prompt) or C(text),
        ShareGPT (JSON), GSM8K, HumanEval and MT-bench questions are understood. As many as the load needs are
        taken, chosen by I(prompts_seed).
    type: list
    elements: path
    default: []
  material:
    description:
      - Prompts and canaries in one packed text, made of the options above by the action plugin on its way to
        the host, so that the host's journal does not fill with them. Not for use in playbooks.
    type: str
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
  api:
    description: C(native) asks SGLang's /generate, C(chat) OpenAI's /v1/chat/completions.
    type: str
    choices: [native, chat]
    default: native
  stream:
    description: Whether answers are streamed. Not streamed, there is no time to first token, nor per token.
    type: bool
    default: true
  rate:
    description:
      - Requests per second that are due whatever the engine answers (open loop); latencies are then counted
        from when a request was due, and the concurrency of a client key is the most that are in flight. Not
        given, the loop is closed, a request follows when an earlier one has ended.
    type: float
  arrival:
    description: When the requests of an open loop are due, at random (C(poisson)) or evenly (C(constant)).
    type: str
    choices: [poisson, constant]
    default: poisson
  repeats:
    description:
      - How often each client key is measured in this life, in turns. Short for I(min_repeats) and
        I(max_repeats).
    type: int
  min_repeats:
    description: Measure each client key so often at least; 1, or 3 with I(target_rel_ci).
    type: int
  max_repeats:
    description: Measure each client key so often at most; I(min_repeats), or 10 with I(target_rel_ci).
    type: int
  target_rel_ci:
    description:
      - A client key is not measured again once half the 95 % confidence interval of its mean throughput is
        below this share of the mean. Not given, it is measured I(max_repeats) times.
    type: float
  soak_s:
    description: Seconds for which the busiest load goes on after the points, beyond I(timeout_s).
    type: float
    default: 0
  slo:
    description:
      - Objective of a request, as C(ttft_ms), C(tpot_ms) or both; given, the share of requests within it is
        part of each point.
    type: dict
  retries:
    description: How often a request is sent again that was turned away with 429 or 503; each is counted.
    type: int
    default: 0
  flush_cache:
    description: Whether the prefix cache is emptied before each point, where the engine offers that.
    type: bool
    default: true
  samples:
    description:
      - Whether outputs that are compared with the baseline's are asked for, as C(tokens), or with the
        C(margins) between the likeliest tokens, which the baseline itself is asked for.
    type: str
    choices: [none, tokens, margins]
    default: none
  gpu_query:
    description: GPU query tool that samples power, clocks and memory once a second; C(none) does not look.
    type: str
    default: none
  canaries_single:
    description: How many canaries are asked one by one before the load; not given, the usual number.
    type: int
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
  no_token_timeout_s:
    description: The load ends when the engine holds requests and none of them gets a token for so many
      seconds.
    type: int
    default: 120
  timeout_s:
    description: Bound for the whole load without the soak, in seconds.
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
    prompts_seed: 1a2b3c4d
    out_dir: /run/treeline/evidence/20260101T000000Z-1a2b3c4d-0001
"""

RETURN = r"""
outcome:
  description: One of C(done), C(died), C(preempted), C(timeout) and C(lease_lost).
  returned: always
  type: str
reason:
  description: Of a timeout, C(no_tokens) (the engine held requests and made no token) or C(bound).
  returned: always
  type: str
phase:
  description: Where it ended, C(canaries), C(warmup), C(point), C(canary_load), C(soak) or C(done).
  returned: always
  type: str
canaries:
  description: Answers, each with C(id), C(phase) (C(single), C(busiest)), C(ok), C(got), C(expect), C(error).
  returned: always
  type: list
points:
  description: One measurement for each client key and repeat that was begun.
  returned: always
  type: list
convergence:
  description: For each repeated client key C(repeats), C(mean_tok_s), C(relative_ci) and C(converged).
  returned: always
  type: list
soak:
  description: What the soak gave, or nothing where none was asked for or reached.
  returned: always
  type: dict
engine:
  description: C(name) of the engine, whether its times are C(simulated), and its highest C(overrun_share).
  returned: always
  type: dict
requests_file:
  description: Compressed NDJSON on the host with one line for each request, without any text.
  returned: always
  type: str
samples:
  description: Outputs to compare with the baseline's, each with C(prompt_sha256), C(tokens), C(margins).
  returned: always
  type: list
coding:
  description:
    - Outcomes of running the answers to coding tasks (canaries with C(check)), each as C(id), C(phase),
      C(outcome) and C(detail), where the load was done.
  returned: always
  type: list
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

import math
import signal

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible.module_utils.treeline_target import (
    coding,
    files,
    http,
    lease,
    load_material,
    load_spec,
    systemd,
    units,
)

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
            "prompts": {"type": "list", "elements": "str", "default": []},
            "prompt_files": {"type": "list", "elements": "path", "default": []},
            "material": {"type": "str", "no_log": True},
            "prompts_seed": {"type": "str", "required": True},
            "requests_per_key": {"type": "int", "default": 0},
            "max_tokens": {"type": "int", "default": 128, "no_log": False},
            "api": {"type": "str", "choices": list(load_spec.APIS), "default": "native"},
            "stream": {"type": "bool", "default": True},
            "rate": {"type": "float"},
            "arrival": {"type": "str", "choices": list(load_spec.ARRIVALS), "default": "poisson"},
            "repeats": {"type": "int"},
            "min_repeats": {"type": "int"},
            "max_repeats": {"type": "int"},
            "target_rel_ci": {"type": "float"},
            "soak_s": {"type": "float", "default": 0},
            "slo": {"type": "dict"},
            "retries": {"type": "int", "default": 0},
            "flush_cache": {"type": "bool", "default": True},
            "samples": {"type": "str", "choices": list(load_spec.SAMPLES), "default": "none"},
            "gpu_query": {"type": "str", "default": "none"},
            "canaries_single": {"type": "int"},
            "connect_timeout_s": {"type": "int", "default": 10},
            "chunk_timeout_s": {"type": "int", "default": 60},
            "request_timeout_s": {"type": "int", "default": 600},
            "no_token_timeout_s": {"type": "int", "default": 120, "no_log": False},
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
    try:
        packed = module.params["material"]
        material = load_material.unpack(packed) if packed else module.params
        spec = _spec(module.params, material)
        # The last resort for a load whose controller is gone and whose event loop hangs: the kernel ends it.
        signal.alarm(math.ceil(spec.total_s) + GRACE_S)
        result = _load(spec, material, module.params)
    except ERRORS as error:
        lost = isinstance(error, lease.LeaseLostError)
        module.fail_json(msg=str(error), lease_lost=lost, **({"outcome": "lease_lost"} if lost else {}))
    answer = {"changed": True, "lease_lost": result["outcome"] == "lease_lost", **result}
    if result["outcome"] == "done":
        module.exit_json(**answer)
    module.fail_json(**answer)


def _spec(given: dict, material: dict) -> load_spec.Spec:
    """What the module's arguments ask for. Raises ValueError."""
    return load_spec.Spec(
        base_url=given["base_url"],
        client_keys=load_spec.parse_client_keys(given["client_keys"]),
        canaries=load_spec.parse_canaries(material["canaries"]),
        prompts=material["prompts"],
        prompts_seed=given["prompts_seed"],
        questions=bool(material.get("questions")),
        out_dir=given["out_dir"],
        requests_per_key=given["requests_per_key"],
        max_tokens=given["max_tokens"],
        api=given["api"],
        stream=given["stream"],
        rate=given["rate"],
        arrival=given["arrival"],
        retries=given["retries"],
        repeats=load_spec.repeats_of(
            given["repeats"], given["min_repeats"], given["max_repeats"], given["target_rel_ci"]
        ),
        slo=load_spec.parse_slo(given["slo"]),
        soak_s=given["soak_s"],
        flush=given["flush_cache"],
        samples=given["samples"],
        gpu_query=given["gpu_query"],
        canaries_single=given["canaries_single"],
        limits=load_spec.Limits(
            connect_s=given["connect_timeout_s"],
            chunk_s=given["chunk_timeout_s"],
            request_s=given["request_timeout_s"],
            total_s=given["timeout_s"],
            no_token_s=given["no_token_timeout_s"],
        ),
        api_key=http.read_key(given["api_key_file"]),
    ).checked()


def _load(spec: load_spec.Spec, material: dict, given: dict) -> dict:
    """The result of the load, on the service life that the module's arguments name."""
    with lease.Keeper(given["lease"]) as keeper:
        life = load_run.Life(
            unit=units.full_name(given["unit"]) if given["unit"] else None,
            invocation_id=given["invocation_id"] or "",
            found_units=[units.full_name(name) for name in given["found_units"]],
            lease_lost=lambda: keeper.lost,
        )
        result = load_run.run(spec, life)
        # Model output is only run while the host is still ours, and shut in (see treeline_target.coding).
        done = result["outcome"] == "done"
        result["coding"] = coding.check_answers(material["canaries"], result["canaries"]) if done else []
        return result


if __name__ == "__main__":
    main()
