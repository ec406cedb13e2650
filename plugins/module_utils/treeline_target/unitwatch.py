"""What systemd says about one unit, and whether the service life that a trial watches is still going.

A unit that ended cleanly is forgotten by systemd (no InvocationID, no timestamps), and one that was not
started at all keeps the id of the life before. Both are told apart here, from values noted earlier.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Mapping, Optional, Sequence

from . import systemd

PROPERTIES = (
    "LoadState",
    "ActiveState",
    "SubState",
    "Result",
    "InvocationID",
    "MainPID",
    "Job",
    "ExecMainCode",
    "ExecMainStatus",
    "InactiveExitTimestampMonotonic",
    "ActiveEnterTimestampMonotonic",
    "InactiveEnterTimestampMonotonic",
)
SHOW_TIMEOUT_S = 10.0

# si_code of waitid(2), as systemd prints it in ExecMainCode.
_EXIT_CODES = {"1": "exited", "2": "killed", "3": "dumped"}


@dataclass(frozen=True)
class UnitState:
    """One look at a unit. Times are seconds of CLOCK_MONOTONIC, None where systemd has none."""

    load_state: str
    active_state: str
    sub_state: str
    result: str
    invocation_id: str
    main_pid: int
    job_pending: bool
    exec_main_code: str
    exec_main_status: Optional[int]
    inactive_exit_monotonic: Optional[float]
    active_enter_monotonic: Optional[float]
    inactive_enter_monotonic: Optional[float]

    @property
    def running(self) -> bool:
        """Active, activating or reloading."""
        return systemd.is_running_state(self.active_state)

    @property
    def ended(self) -> bool:
        """Inactive or failed: no process of the unit is left to wait for."""
        return self.active_state in ("inactive", "failed")

    def as_dict(self) -> dict[str, Any]:
        """For results: plain values."""
        return asdict(self)


def _seconds(properties: Mapping[str, str], name: str) -> Optional[float]:
    value = properties.get(name, "")
    return int(value) / 1e6 if value.isdigit() and value != "0" else None


def parse_state(properties: Mapping[str, str]) -> UnitState:
    """A UnitState from `systemctl show` properties; absent ones count as empty."""
    status = properties.get("ExecMainStatus", "")
    pid = properties.get("MainPID", "")
    code = properties.get("ExecMainCode", "0")
    return UnitState(
        load_state=properties.get("LoadState", ""),
        active_state=properties.get("ActiveState", ""),
        sub_state=properties.get("SubState", ""),
        result=properties.get("Result", ""),
        invocation_id=properties.get("InvocationID", ""),
        main_pid=int(pid) if pid.isdigit() else 0,
        job_pending=properties.get("Job", "") not in ("", "0"),
        exec_main_code=_EXIT_CODES.get(code, "" if code == "0" else code),
        exec_main_status=int(status) if status.lstrip("-").isdigit() else None,
        inactive_exit_monotonic=_seconds(properties, "InactiveExitTimestampMonotonic"),
        active_enter_monotonic=_seconds(properties, "ActiveEnterTimestampMonotonic"),
        inactive_enter_monotonic=_seconds(properties, "InactiveEnterTimestampMonotonic"),
    )


def read_state(unit: str, timeout_s: float = SHOW_TIMEOUT_S) -> UnitState:
    """Ask systemd about `unit` now. Raises systemd.CommandError without an answer within `timeout_s`."""
    answer = systemd.systemctl(
        "show", "--all", "--property=%s" % ",".join(PROPERTIES), "--", unit, timeout=timeout_s
    )
    return parse_state(systemd.parse_properties(answer.stdout))


def why_over(state: UnitState, invocation_id: str) -> Optional[str]:
    """Why the service life `invocation_id` is over, in words; None while it goes on.

    A unit that is deactivating counts as going on: systemd has not yet let go of it.
    """
    if state.invocation_id == invocation_id:
        return None if not state.ended else "the unit is %s (%s)" % (state.active_state, end_words(state))
    if state.invocation_id:
        return "the unit now runs as another invocation, %s" % state.invocation_id
    return "the unit ended and systemd has let go of it (a clean exit, or a stop)"


def end_words(state: UnitState) -> str:
    """How the main process of an ended unit ended, in systemd's words: `Result=signal, killed, status 9`."""
    words = ["Result=%s" % (state.result or "unknown")]
    if state.exec_main_code:
        words.append(state.exec_main_code)
    if state.exec_main_code and state.exec_main_status is not None:
        words.append("status %d" % state.exec_main_status)
    return ", ".join(words)


def running_unit(units: Sequence[str], timeout_s: float = SHOW_TIMEOUT_S) -> Optional[str]:
    """The first of `units` that is active, activating or reloading, or None. Raises systemd.CommandError."""
    return next((unit for unit in units if read_state(unit, timeout_s).running), None)
