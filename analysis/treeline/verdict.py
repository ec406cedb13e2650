"""From what a trial left behind to its one verdict. Pure: nothing is read and nothing is written here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from treeline import node_facts
from treeline.gates import STATUS_OF_GATE, LogFacts, describe_mismatches
from treeline.keys import RestartKey
from treeline.plain import clean
from treeline.records import Effect, Gate, Kind, Status, Step
from treeline.steps import StepResult, Steps

REJECTED_CLASSES = ("bad_args", "config_rejected")
_NO_CAUSE = ("ok", "unknown")
_STEP_OF: dict[str, Step] = {
    "begin": "preflight",
    "configure": "configure",
    "restart": "restart",
    "ready": "ready",
    "load": "load",
    "evidence": "evidence",
}
_SILENT: dict[Status, str] = {
    "garbled": "silent_corruption",
    "accept_collapse": "silent_corruption",
    "fallback": "spec_disabled",
}
_ADVICE: dict[Status, str] = {
    "void": "This says nothing about the setting. Mend the host or the network; the item is tried again.",
    "timeout": "If the log shows progress to the end, raise ready_timeout; else look for a hang.",
    "mismatch": "The engine does not serve what was asked: check engine_dialect and the extra arguments.",
    "garbled": "Never serve this setting. Try graphs=off, a smaller budget or another attention_backend.",
    "accept_collapse": "No draft is accepted. Try graphs=off, a smaller budget or another attention_backend.",
    "fallback": "The engine runs without speculation: look in its log for why it was switched off.",
    "measurement_invalid": "Its figures cannot be used; the item is measured again.",
}
_LOAD_TIMEOUT = (
    "The engine served and did not get done with the load: look for a hang (py-spy dump of the scheduler). "
    "If it was only slow, raise treeline_load_bound_s or treeline_no_token_timeout_s."
)
# The engine phase in which these are seen: it serves.
_WHILE_SERVING = ("ok", "mismatch", "garbled", "accept_collapse", "fallback", "measurement_invalid")


@dataclass(frozen=True)
class TrialFacts:
    """Everything a verdict rests on. ``width`` is the dialect's verify width in tokens per request."""

    key: RestartKey
    width: int
    steps: Steps
    log: LogFacts | None
    gates: tuple[Gate, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """What became of a trial; the fields are those of the ``finished`` line."""

    status: Status
    effect: Effect
    kind: Kind
    class_: str | None
    phase: str | None
    step: Step | None
    first_error: str | None
    rank: int | None
    captured_bs: int | None
    rows: int
    advice: str | None
    secondary: tuple[str, ...]


@dataclass(frozen=True)
class _Finding:
    """How the trial ended, before the log has its say."""

    status: Status
    step: Step | None
    message: str = ""
    phase: str | None = None
    kind: Kind | None = None


def decide(facts: TrialFacts) -> Verdict:
    """The verdict on one trial, by the order of precedence of the statuses."""
    finding = (
        _node_failure(facts)
        or _gpu_failure(facts)
        or _not_the_engines_fault(facts)
        or _engine_end(facts)
        or _gates(facts.gates)
    )
    if finding.status == "crash" and facts.log is not None and facts.log.class_ in REJECTED_CLASSES:
        finding = _Finding("rejected", finding.step, finding.message, finding.phase)
    return _complete(facts, finding)


def _node_failure(facts: TrialFacts) -> _Finding | None:
    if facts.log is None or facts.log.kind != "node":
        return None
    end = _engine_end(facts)
    return _Finding("void", end.step if end else "evidence", facts.log.first_error or "", facts.log.phase)


def _gpu_failure(facts: TrialFacts) -> _Finding | None:
    """Error counters that grew, or a GPU that was lost, while the trial ran: no log line is needed."""
    looks = facts.steps.evidence.get("gpu", dict) or {}
    fault = node_facts.node_fault(looks.get("before"), looks.get("after"))
    if fault is None:
        return None
    end = _engine_end(facts)
    return _Finding("void", end.step if end else "evidence", fault, kind="node")


def _not_the_engines_fault(facts: TrialFacts) -> _Finding | None:
    steps = facts.steps
    for name, result in steps.each():
        if result.unreachable:
            return _Finding(
                "void", _STEP_OF[name], f"the host was unreachable: {result.message or 'no message'}"
            )
    if steps.begin.failed or not steps.begin.ran:
        return _Finding("void", "preflight", steps.begin.message or "the trial did not begin")
    if steps.configure.failed:
        return _Finding("void", "configure", steps.configure.message)
    return _nothing_started(steps) or _preempted(steps) or _crowded(steps)


def _preempted(steps: Steps) -> _Finding | None:
    where: Step = "load" if steps.load.ran else "ready"
    for name, result in (("ready", steps.ready), ("load", steps.load)):
        if result.text("outcome") in ("preempted", "lease_lost"):
            return _Finding("void", _STEP_OF[name], f"{result.text('outcome')}: {result.message}")
    if steps.evidence.get("lease_lost", bool):
        return _Finding("void", where, "the lease ended while the trial ran")
    if unit := steps.evidence.text("preempted_by"):
        return _Finding("void", where, f"preempted: {unit} became active and stopped the trial")
    if steps.evidence.get("stopped_by_others", bool):
        return _Finding("void", where, "preempted: somebody stopped the trial unit")
    return None


def _crowded(steps: Steps) -> _Finding | None:
    """Somebody else held GPU memory beside the trial: neither its death nor its figures say anything."""
    beside = node_facts.intruders((steps.evidence.get("gpu", dict) or {}).get("after"))
    return _Finding("void", "evidence", beside) if beside else None


def _nothing_started(steps: Steps) -> _Finding | None:
    """systemd keeps the previous InvocationID when nothing started, and none when it forgot the unit."""
    if steps.ready.text("outcome") == "nothing_started":
        return _Finding("void", "restart", steps.ready.message)
    if not steps.restart.ran:
        return _Finding("void", "restart", "the restart was not carried out")
    if steps.restart.failed and not _new_invocation(steps):
        return _Finding("void", "restart", steps.restart.message)
    return None


def _new_invocation(steps: Steps) -> bool:
    end = steps.evidence.get("end", dict) or {}
    current = steps.ready.text("invocation_id") or end.get("invocation_id")
    return bool(current) and current != steps.begin.text("previous_invocation_id")


def _engine_end(facts: TrialFacts) -> _Finding | None:
    """How the engine's life ended before its load did, or that it does not serve what was asked."""
    steps = facts.steps
    if steps.restart.failed:
        return _Finding("crash", "restart", steps.restart.message, "args")
    outcome = steps.ready.text("outcome")
    if outcome == "died":
        return _died(steps.ready, "ready", steps.evidence)
    if outcome == "timeout":
        return _Finding("timeout", "ready", steps.ready.message)
    if outcome == "mismatch":
        mismatches = describe_mismatches(steps.ready.mappings("mismatches"))
        return _Finding("mismatch", "prove", mismatches or steps.ready.message)
    if outcome != "ready":
        return _Finding("void", "ready", steps.ready.message or "the readiness check did not run")
    return _load_end(facts)


def _load_end(facts: TrialFacts) -> _Finding | None:
    load, evidence = facts.steps.load, facts.steps.evidence
    outcome = load.text("outcome")
    dead = evidence.ran and evidence.get("alive", bool) is False
    if outcome == "died":
        return _died(load, "load" if load.mappings("points") else "canary", evidence)
    if outcome == "timeout":
        return _Finding("timeout", "load", load.message)
    if outcome != "done":
        if dead and facts.log is not None and facts.log.class_ not in _NO_CAUSE:
            return _Finding("crash", "load", load.message)
        return _Finding("void", "load", load.message or "the load did not run")
    if dead:
        return _Finding(
            "crash", "evidence", "the unit was dead when its evidence was collected, after the load"
        )
    return None


def _died(result: StepResult, step: Step, evidence: StepResult) -> _Finding:
    """A unit that systemd ended for running or stopping too long is a timeout; any other end a crash."""
    end = evidence.get("end", dict) or {}
    by_systemd = "timeout" in (result.text("result"), end.get("result") if end.get("ours") else None)
    status: Status = "timeout" if by_systemd else "crash"
    phases = result.get("phases", dict) or {}
    reached = max(phases, key=lambda name: phases[name], default=None)
    return _Finding(status, step, result.message, reached)


def _gates(gates: Sequence[Gate]) -> _Finding:
    failed = {gate.name: gate for gate in gates if gate.verdict == "failed"}
    for name, status in STATUS_OF_GATE:
        if name in failed:
            step: Step = (
                "prove" if status == "mismatch" else "canary" if name == "canaries_single" else "gates"
            )
            return _Finding(status, step, _describe(failed[name]))
    return _Finding("ok", None)


def _describe(gate: Gate) -> str:
    detail = f" ({gate.detail})" if gate.detail else ""
    return f"gate {gate.name}: {gate.value}, allowed {gate.limit}{detail}"


def _complete(facts: TrialFacts, finding: _Finding) -> Verdict:
    """Add what the log knows to how the trial ended."""
    log, status = facts.log, finding.status
    kind = finding.kind or _kind(status, log)
    class_ = _class(status, log)
    # Of a cause without a class the log still tells the line, the rank and the batch.
    by_log = log if log is not None and class_ not in (None, "ok") and class_ == log.class_ else None
    phase = _phase(finding, log)
    captured_bs = by_log.captured_bs if by_log and phase == "graph_capture" else None
    first_error = (
        (by_log.first_error if by_log else None) or finding.message or (log.first_error if log else None)
    )
    advice = (by_log.advice if by_log else None) or _advice(finding) or (log.advice if log else None)
    others = () if log is None or log.class_ in (class_, *_NO_CAUSE) else (log.class_,)
    return Verdict(
        status=status,
        effect=_effect(status, class_, kind),
        kind=kind,
        class_=class_,
        phase=phase,
        step=finding.step,
        first_error=None if status == "ok" or not first_error else clean(first_error),
        rank=by_log.rank if by_log else None,
        captured_bs=captured_bs,
        rows=(captured_bs or facts.key.captured_bs) * facts.width,
        advice=None if status == "ok" else advice or None,
        secondary=(*others, *(log.secondary if log else ())),
    )


def _advice(finding: _Finding) -> str | None:
    if finding.status == "timeout" and finding.step == "load":
        return _LOAD_TIMEOUT
    return _ADVICE.get(finding.status)


def _class(status: Status, log: LogFacts | None) -> str | None:
    known = log.class_ if log is not None else None
    if status == "ok":
        return "ok"
    if status in ("crash", "rejected"):
        return known if known not in (None, "ok") else "unknown"
    if status in _SILENT:
        return known if known not in (None, *_NO_CAUSE) else _SILENT[status]
    return known if status == "void" and log is not None and log.kind == "node" else None


def _kind(status: Status, log: LogFacts | None) -> Kind:
    if status in _SILENT:
        return "config"
    if status in ("crash", "rejected") or (status == "void" and log is not None and log.kind == "node"):
        return _as_kind(log.kind if log is not None else "none")
    return "none"


def _as_kind(text: str) -> Kind:
    kinds: dict[str, Kind] = {"config": "config", "node": "node", "transient": "transient", "setup": "setup"}
    return kinds.get(text, "none")


def _phase(finding: _Finding, log: LogFacts | None) -> str | None:
    if finding.status in _WHILE_SERVING:
        return "serving"
    if finding.step == "restart":
        return finding.phase
    return (log.phase if log is not None else None) or finding.phase


def _effect(status: Status, class_: str | None, kind: Kind) -> Effect:
    if status == "ok":
        return "good"
    if status == "void":
        return "node" if kind == "node" else "void"
    if status == "measurement_invalid":
        return "back"
    if status == "mismatch" or class_ == "bad_args":
        return "dialect"
    if status == "timeout":
        return "repeat"
    if status == "crash":
        by_kind: dict[Kind, Effect] = {"config": "bad", "transient": "repeat_transient", "setup": "setup"}
        return by_kind.get(kind, "repeat")
    return "bad"
