"""The lines of a sweep folder as typed values: trials, measurements and the sweep itself.

Every line carries ``schema_version``. Decoding accepts fields that a newer version added and is strict
about the types of those it knows. A restart key is the exception: an unknown field in it would make
another cell, so it is refused (see ``treeline.keys``). Times are ISO 8601 UTC texts, durations seconds.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from treeline.keys import ClientKey, Known, Plan, Purpose, RestartKey

SCHEMA_VERSION = 1

Status = Literal[
    "void",
    "rejected",
    "crash",
    "timeout",
    "mismatch",
    "garbled",
    "fallback",
    "accept_collapse",
    "measurement_invalid",
    "ok",
]
Step = Literal[
    "preflight",
    "configure",
    "restart",
    "ready",
    "prove",
    "canary",
    "load",
    "gates",
    "evidence",
    "restore",
]
Kind = Literal["config", "node", "transient", "setup", "none"]
Effect = Literal["good", "bad", "repeat", "repeat_transient", "dialect", "setup", "void", "node", "back"]
GateVerdict = Literal["passed", "failed", "not available"]
Outcome = Literal["complete", "limit", "stopped", "incomplete"]


class Controller(msgspec.Struct, frozen=True, kw_only=True):
    """One ansible-playbook process: where it runs, in which boot, and which process it is.

    ``pid_start`` is its start time in clock ticks since boot (field 22 of /proc/<pid>/stat): together with
    the boot id it tells the process from a later one with the same number. ``pid_namespace`` is the one that
    the number counts in: containers of one machine share its boot id (None: not recorded).
    """

    host: str
    boot_id: str
    pid: int
    pid_start: int
    pid_namespace: str | None = None

    def __str__(self) -> str:
        return f"ansible-playbook with pid {self.pid} on {self.host}"


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """One check of a trial: what was seen, what is allowed, and what follows."""

    name: str
    verdict: GateVerdict
    value: float | int | str | bool | None = None
    limit: float | int | str | bool | None = None
    detail: str = ""


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """When a trial began (controller's clock) and the seconds that its steps took (target's clock).

    ``waited_s`` runs from the unit's start until readiness was decided, ``noticed_s`` from its death until
    then.
    """

    started_at: str
    restart_s: float | None = None
    ready_s: float | None = None
    waited_s: float | None = None
    noticed_s: float | None = None
    load_s: float | None = None
    total_s: float | None = None


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """What ``started`` and ``finished`` have in common: which trial of which item, where."""

    trial_id: str
    sweep_id: str
    item_id: str
    cell: str
    purpose: Purpose
    ordinal: int
    host: str
    hardware_class: str
    key: RestartKey
    at: str
    schema_version: int = SCHEMA_VERSION


class Started(Line, frozen=True, kw_only=True, tag_field="event", tag="started"):
    """A claim: from this line on the item is this host's."""

    seq: int
    reason: str
    controller: Controller


class Finished(
    Line, frozen=True, kw_only=True, tag_field="event", tag="finished", rename={"class_": "class"}
):
    """A verdict, made once. ``effect`` is all that the planner reads of it.

    ``throughput`` is output tokens/s by point; ``speedup`` its ratio to the stored baseline's, and
    ``speedup_note`` why there is none.
    """

    status: Status
    effect: Effect
    kind: Kind
    times: Times
    class_: str | None = None
    phase: str | None = None
    step: Step | None = None
    first_error: str | None = None
    rank: int | None = None
    captured_bs: int | None = None
    rows: int | None = None
    advice: str | None = None
    evidence: str | None = None
    gates: tuple[Gate, ...] = ()
    al: float | None = None
    throughput: dict[str, float | None] = {}
    soak: dict[str, Any] | None = None
    speedup: dict[str, float] = {}
    speedup_note: str | None = None
    invocation_id: str | None = None
    previous_invocation_id: str | None = None
    main_pid: int | None = None
    served: dict[str, Any] = {}
    proof: dict[str, Any] = {}
    engine: str | None = None
    simulated: bool = False
    extrapolated: bool | None = None
    secondary: tuple[str, ...] = ()


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """What one client key gave inside one service life.

    ``window`` describes the stretch over which ``output_tok_s`` was taken; ``duration_s`` is the whole run.
    ``complete`` false: the load ended before this point did. Latencies are in milliseconds, counted from when
    a request was due; ``late_p99_ms`` is by how much requests were sent after that. ``requests`` = ``ok`` +
    ``failed`` + ``cancelled`` (in flight at the end). ``output_tok_s`` is that of the window,
    ``overall_tok_s`` of first send to last token. ``cross_checks``: the figures by the engine's own accounts,
    each as name, ours, theirs, tolerance and whether they agree. Power and energy are those of all GPUs over
    the window; ``telemetry_reason`` says why they are missing.
    """

    trial_id: str
    sweep_id: str
    host: str
    hardware_class: str
    key: RestartKey
    concurrency: int
    requests: int
    at: str
    context: int | None = None
    repeat: int = 1
    failed: int = 0
    cancelled: int = 0
    complete: bool = True
    errors: dict[str, int] = {}
    completion_tokens: int | None = None
    verify_calls: int | None = None
    al: float | None = None
    output_tok_s: float | None = None
    duration_s: float | None = None
    window: dict[str, Any] | None = None
    ttft_p50_ms: float | None = None
    ttft_p90_ms: float | None = None
    ttft_p99_ms: float | None = None
    tpot_p50_ms: float | None = None
    tpot_p90_ms: float | None = None
    tpot_p99_ms: float | None = None
    e2e_p50_ms: float | None = None
    e2e_p90_ms: float | None = None
    e2e_p99_ms: float | None = None
    cached_tokens: int | None = None
    prompt_tokens: int | None = None
    prefix_cache_share: float | None = None
    server_peak_running: int | None = None
    garbled: int | None = None
    judged: int | None = None
    overrun_share: float | None = None
    ok: int | None = None
    retried: int | None = None
    first_error: str | None = None
    api: str | None = None
    streamed: bool | None = None
    max_tokens: int | None = None
    loop: Literal["closed", "open"] | None = None
    rate: float | None = None
    arrival: str | None = None
    correct_drafts: int | None = None
    proposed_drafts: int | None = None
    accepted_histogram: list[int] | None = None
    accept_rate: float | None = None
    overall_tok_s: float | None = None
    itl_p50_ms: float | None = None
    itl_p90_ms: float | None = None
    itl_p99_ms: float | None = None
    late_p99_ms: float | None = None
    effective_concurrency: float | None = None
    goodput: dict[str, Any] | None = None
    prompt_tokens_mean: float | None = None
    prompts_sha256: str | None = None
    prompts_seed: str | None = None
    cache_flushed: bool | None = None
    cross_checks: list[dict[str, Any]] | None = None
    power_w: float | None = None
    energy_j: float | None = None
    tokens_per_joule: float | None = None
    telemetry_reason: str | None = None
    telemetry: dict[str, Any] | None = None
    engine: str | None = None
    simulated: bool = False
    schema_version: int = SCHEMA_VERSION


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """What a host measures with. Two runs of a sweep belong together only where these agree."""

    hardware_class: str = ""
    engine: str | None = None
    engine_build: str | None = None
    model: str | None = None
    driver: str | None = None


class HostState(msgspec.Struct, frozen=True, kw_only=True):
    """How a run left one host.

    ``touched``: its services were taken (or that was attempted), so that they were owed back; ``restored``:
    they are proven to be as they were. ``reason`` says why it was not restored, or never taken.
    """

    touched: bool = True
    restored: bool = False
    reason: str = ""
    broke_off: str = ""
    """Why it left the sweep early; empty where it did not."""

    @property
    def owed(self) -> bool:
        """Whether something is still to be put back."""
        return self.touched and not self.restored


class Run(msgspec.Struct, kw_only=True):
    """One run of the playbook over a sweep; ``ended_at`` is missing where it never closed.

    ``hosts`` says how it left them; while it goes on, those that earlier runs still owe their services. It is
    missing in records of the first versions.
    """

    controller: Controller
    started_at: str
    ended_at: str | None = None
    outcome: Outcome | None = None
    reason: str | None = None
    notes: list[str] = []
    hosts: dict[str, HostState] | None = None


class Sweep(msgspec.Struct, kw_only=True):
    """``sweep.json``. It can be resumed until ``finished_at`` says that it owes nothing any more: every item
    of the plan is settled, and every host is as it was found.

    ``known`` is what each hardware class brought along when the sweep was opened.
    """

    sweep_id: str
    plan_hash: str
    plan: Plan
    dialect: str
    created_at: str
    variables: dict[str, Any] = {}
    options: dict[str, Any] = {}
    provenance: dict[str, Provenance] = {}
    known: dict[str, Known] = {}
    runs: list[Run] = []
    finished_at: str | None = None
    outcome: Outcome | None = None
    schema_version: int = SCHEMA_VERSION

    def known_of(self, hardware_class: str) -> Known:
        """What a hardware class brought along; nothing for one that joined later."""
        return self.known.get(hardware_class, Known())


TrialLine = Started | Finished

__all__ = [
    "SCHEMA_VERSION",
    "ClientKey",
    "Controller",
    "Effect",
    "Finished",
    "Gate",
    "HostState",
    "Kind",
    "Measurement",
    "Outcome",
    "Provenance",
    "Run",
    "Started",
    "Status",
    "Step",
    "Sweep",
    "Times",
    "TrialLine",
    "utc_now",
]


def utc_now() -> str:
    """Now, as the records write it: ISO 8601, UTC, milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_between(earlier: str, later: str) -> float:
    """Seconds from one record time to another. Raises ValueError on a text that is no ISO 8601 time."""
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()
