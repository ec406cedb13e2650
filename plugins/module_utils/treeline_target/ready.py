"""Wait for a trial's unit to serve, and prove that what serves is the trial.

Two things run side by side: this thread looks at the unit every quarter of a second, so that a death is
reported at once, and another asks the service (which may hang for as long as it likes). While the engine
loads, its port is closed; that is normal and not an error.
"""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass, field
from typing import Any, Callable, Mapping, Optional

from . import clock, http, journal, proof, systemd, unitwatch
from .served import INFO_PAGES

POLL_S = 0.25
HEALTH_TIMEOUT_S = 30.0
GENERATE_TIMEOUT_S = 60.0
INFO_TIMEOUT_S = 20.0
# After a death there are two seconds to return, so what is read then gets little time.
LAST_LOOK_S = 1.0
JOURNAL_TIMEOUT_S = 15.0
PROMPT = "Count from one to ten: one, two, three,"


@dataclass(frozen=True)
class Spec:
    """What to wait for. `timeout_s` counts from the call; `cursor` is the journal's end before it."""

    unit: str
    trial_id: str
    previous_invocation_id: str
    base_url: str
    timeout_s: float
    expected_served: Mapping[str, Any] = field(default_factory=dict)
    expected_width: Optional[int] = None
    api_key: Optional[str] = None
    cursor: Optional[str] = None


@dataclass
class Result:
    """How the wait ended. Times are seconds of CLOCK_MONOTONIC; `ready_s` counts from the unit's start.

    `outcome` is ready, died, nothing_started, timeout, mismatch or lease_lost.
    """

    outcome: str
    msg: str
    invocation_id: str = ""
    main_pid: int = 0
    exec_main_code: str = ""
    exec_main_status: Optional[int] = None
    result: str = ""
    started_at_monotonic: Optional[float] = None
    died_at_monotonic: Optional[float] = None
    returned_at_monotonic: float = 0.0
    ready_s: Optional[float] = None
    served: dict[str, Any] = field(default_factory=dict)
    server_info: dict[str, Any] = field(default_factory=dict)
    mismatches: list[dict[str, Any]] = field(default_factory=list)
    captured_width: Optional[int] = None
    phases: dict[str, float] = field(default_factory=dict)
    proof: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """For module results: plain values."""
        return asdict(self)


@dataclass(frozen=True)
class _Served:
    at: float
    server_info: dict[str, Any]
    facts: journal.LogFacts
    strangers: Optional[list[str]]


class _Asker(threading.Thread):
    """Asks the service until it has generated a token, then for its arguments and for what its log says."""

    def __init__(self, spec: Spec, invocation_id: str) -> None:
        super().__init__(name="readiness", daemon=True)
        self._spec = spec
        self.invocation_id = invocation_id
        self._stopped = threading.Event()
        self.served: Optional[_Served] = None
        self.problem = "it was not asked yet"

    def stop(self) -> None:
        self._stopped.set()

    def run(self) -> None:
        while not self._stopped.is_set():
            try:
                generate_one_token(self._spec.base_url, self._spec.api_key)
                at = clock.monotonic()
                info = server_info(self._spec.base_url, self._spec.api_key)
                strangers = proof.strangers(self._spec.base_url, self._spec.unit)
                self.served = _Served(at, info, self._facts(), strangers)
                return
            except http.HttpError as error:
                self.problem = str(error)
            except Exception as error:  # a thread that died unseen would look like a slow engine
                self.problem = "unexpected %s: %s" % (type(error).__name__, error)
            self._stopped.wait(POLL_S)

    def _facts(self) -> journal.LogFacts:
        """The journal lags behind the engine: look again while an expected width is missing."""
        for _ in range(4):
            facts = log_facts(self.invocation_id, JOURNAL_TIMEOUT_S)
            if self._spec.expected_width is None or facts.captured_width is not None:
                break
            self._stopped.wait(POLL_S)
        return facts


def generate_one_token(base_url: str, api_key: Optional[str]) -> None:
    """Have one token generated. Raises http.HttpError while the service is not up, or when it gives none."""
    health = http.request(base_url + "/health_generate", HEALTH_TIMEOUT_S, api_key=api_key)
    if health.status == 404:
        health = http.request(base_url + "/health", HEALTH_TIMEOUT_S, api_key=api_key)
    if health.status != 200:
        raise http.HttpError("%s answered its health check with %d" % (base_url, health.status))
    payload = {
        "text": PROMPT,
        "sampling_params": {"temperature": 0, "max_new_tokens": 1, "ignore_eos": True},
    }
    answer = http.post_json(base_url + "/generate", payload, GENERATE_TIMEOUT_S, api_key)
    if isinstance(answer, list) and answer:
        answer = answer[0]
    if not isinstance(answer, dict) or not (answer.get("text") or answer.get("output_ids")):
        raise http.HttpError("%s/generate answered 200 without a token" % base_url)


def server_info(base_url: str, api_key: Optional[str]) -> dict[str, Any]:
    """The service's own account of its arguments, secrets hidden; empty where it has no such page.

    Raises http.HttpError when it does not answer.
    """
    for page in INFO_PAGES:
        answer = http.request(base_url + page, INFO_TIMEOUT_S, api_key=api_key)
        if answer.status == 404:
            continue
        if answer.status != 200:
            raise http.HttpError("%s%s answered %d" % (base_url, page, answer.status))
        try:
            value = answer.json()
        except ValueError:
            raise http.HttpError("%s%s answered 200 without JSON" % (base_url, page)) from None
        if isinstance(value, dict):
            return proof.presentable(value)
    return {}


def log_facts(invocation_id: str, timeout_s: float) -> journal.LogFacts:
    """Phases and captured width from the journal; empty when the journal does not answer in time."""
    query = journal.invocation_query(invocation_id)
    try:
        return journal.log_facts(journal.parse(journal.stream(query, timeout_s)))
    except journal.JournalError:
        return journal.LogFacts({}, None)


def wait(spec: Spec, lease_lost: Callable[[], Optional[str]] = lambda: None) -> Result:
    """Wait until `spec.unit` serves, is dead, has not started, or the bound is reached.

    `lease_lost` says why the lease is gone, None while it is held. Raises systemd.CommandError when systemd
    did not answer when the bound was reached.
    """
    deadline = clock.monotonic() + spec.timeout_s
    asker: Optional[_Asker] = None
    pause = threading.Event()
    try:
        while True:
            state, trouble = _look(spec.unit)
            if state is not None:
                if asker is None and _is_new(state, spec):
                    asker = _Asker(spec, state.invocation_id)
                    asker.start()
                over = _over(spec, state, asker)
                if over is not None:
                    return _stamped(over)
                if asker is not None and asker.served is not None:
                    proven = _prove(spec, state, asker.served)
                    # A process that died while it was looked at did not serve the wrong thing.
                    state = _look(spec.unit)[0] or state
                    return _stamped(_over(spec, state, asker) or proven)
            lost = lease_lost()
            if lost is not None:
                return _stamped(Result("lease_lost", lost))
            if clock.monotonic() >= deadline:
                if state is None:
                    raise systemd.CommandError(trouble)
                return _stamped(_timed_out(spec, state, asker))
            pause.wait(POLL_S)
    finally:
        if asker is not None:
            asker.stop()


def _stamped(result: Result) -> Result:
    result.returned_at_monotonic = clock.monotonic()
    return result


def _look(unit: str) -> tuple[Optional[unitwatch.UnitState], str]:
    try:
        return unitwatch.read_state(unit), ""
    except systemd.CommandError as error:
        return None, str(error)


def _is_new(state: unitwatch.UnitState, spec: Spec) -> bool:
    return bool(state.invocation_id) and state.invocation_id != spec.previous_invocation_id


def _over(spec: Spec, state: unitwatch.UnitState, asker: Optional[_Asker]) -> Optional[Result]:
    """The result when the trial's life is over or never began, None while there is something to wait for."""
    if asker is not None:
        why = unitwatch.why_over(state, asker.invocation_id)
        return None if why is None else _died(spec, state, asker.invocation_id, why)
    if _is_new(state, spec) or state.active_state == "activating" or state.job_pending:
        return None
    short_lived = _short_life(spec)
    if short_lived:
        return _died(spec, state, short_lived, "the unit ended by itself before it was looked at")
    known = "unchanged" if state.invocation_id else "empty"
    return Result(
        "nothing_started",
        "%s was not started: its InvocationID is %s after the restart, and it is %s (%s)"
        % (spec.unit, known, state.active_state or "unknown", state.load_state or "no load state"),
        result=state.result,
    )


def _short_life(spec: Spec) -> str:
    """The id of a life that began after the cursor and was forgotten since: it ended cleanly. Else empty."""
    if not spec.cursor:
        return ""
    matches = ["_PID=1", "UNIT=%s" % spec.unit]
    try:
        found = list(journal.parse(journal.stream_after(spec.cursor, matches, LAST_LOOK_S)))
    except journal.JournalError:
        return ""
    ids = [entry.get("INVOCATION_ID") for entry in found]
    return next((str(name) for name in reversed(ids) if name and name != spec.previous_invocation_id), "")


def _died(spec: Spec, state: unitwatch.UnitState, invocation_id: str, why: str) -> Result:
    ours = state.invocation_id == invocation_id
    facts = log_facts(invocation_id, LAST_LOOK_S)
    return Result(
        "died",
        "%s died before it was ready: %s%s"
        % (spec.unit, why, "; its log had reached %s" % facts.reached if facts.reached else ""),
        invocation_id=invocation_id,
        exec_main_code=state.exec_main_code if ours else "",
        exec_main_status=state.exec_main_status if ours else None,
        result=state.result,
        started_at_monotonic=state.inactive_exit_monotonic if ours else None,
        died_at_monotonic=state.inactive_enter_monotonic if ours else last_word(invocation_id),
        captured_width=facts.captured_width,
        phases=facts.phases,
    )


def last_word(invocation_id: str) -> Optional[float]:
    """When systemd last wrote about a life (seconds, CLOCK_MONOTONIC): its end, where systemd forgot it."""
    try:
        found = journal.entries(["_PID=1", "INVOCATION_ID=%s" % invocation_id], LAST_LOOK_S)
    except journal.JournalError:
        return None
    stamps = [at for at in map(journal.usec, found) if at is not None]
    return max(stamps) / 1e6 if stamps else None


def _timed_out(spec: Spec, state: unitwatch.UnitState, asker: Optional[_Asker]) -> Result:
    invocation_id = asker.invocation_id if asker is not None else ""
    facts = log_facts(invocation_id, LAST_LOOK_S) if invocation_id else journal.LogFacts({}, None)
    return Result(
        "timeout",
        "%s is %s but was not ready within %g s: %s"
        % (
            spec.unit,
            state.active_state,
            spec.timeout_s,
            asker.problem if asker else "its start is still queued",
        ),
        invocation_id=invocation_id,
        main_pid=state.main_pid,
        started_at_monotonic=state.inactive_exit_monotonic,
        captured_width=facts.captured_width,
        phases=facts.phases,
    )


def _prove(spec: Spec, state: unitwatch.UnitState, served: _Served) -> Result:
    mismatches = proof.compare(spec.expected_served, served.server_info)
    width = proof.compare_width(spec.expected_width, served.facts.captured_width)
    mismatches += [width] if width else []
    try:
        in_process = proof.environment_of(state.main_pid).get(proof.TRIAL_VARIABLE)
    except proof.ProofError as error:
        in_process = None
        mismatches.append(proof.Mismatch("%s (%s)" % (proof.TRIAL_VARIABLE, error), spec.trial_id, None))
    else:
        if in_process != spec.trial_id:
            mismatches.append(proof.Mismatch(proof.TRIAL_VARIABLE, spec.trial_id, in_process))
    if served.strangers:
        mismatches.append(proof.Mismatch("answers come from", spec.unit, "; ".join(served.strangers)))
    started = state.inactive_exit_monotonic
    ready_s = round(served.at - started, 3) if started is not None else None
    text = "ready after %s s" % ready_s
    if mismatches:
        text = "%s serves, but not what was asked: %s" % (spec.unit, "; ".join(map(str, mismatches)))
    return Result(
        "mismatch" if mismatches else "ready",
        text,
        invocation_id=state.invocation_id,
        main_pid=state.main_pid,
        result=state.result,
        started_at_monotonic=started,
        ready_s=ready_s,
        served=proof.reported(spec.expected_served, served.server_info),
        server_info=served.server_info,
        mismatches=[entry.as_dict() for entry in mismatches],
        captured_width=served.facts.captured_width,
        phases=served.facts.phases,
        proof={
            "trial_id_in_env": in_process,
            "invocation_id": state.invocation_id,
            "previous_invocation_id": spec.previous_invocation_id,
            "main_pid": state.main_pid,
            "listener_is_the_unit": None if served.strangers is None else not served.strangers,
            "expected_width": spec.expected_width,
            "captured_width": served.facts.captured_width,
        },
    )
