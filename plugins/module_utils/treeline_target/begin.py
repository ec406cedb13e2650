"""Make a host ready for a trial and note where it stands: what later tells its traces from older ones."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence

from . import clock, gpu_empty, gpu_evidence, gpu_tool, kernel_log, lease, snapshot, systemd
from .files import PATHS, Paths, forget_evidence


class BeginError(Exception):
    """No trial may start on this host; the message says why and what to do."""


def begin(
    trial_unit: str,
    trial_id: str,
    lease_given: Optional[Mapping[str, Any]],
    found_units: Sequence[str] = (),
    gpu_query: str = gpu_tool.DEFAULT,
    kernel: str = kernel_log.NONE,
    paths: Paths = PATHS,
) -> dict[str, Any]:
    """Renew the lease, stop the trial before, empty the GPUs and return the marks {trial_id, cursor, ...}.

    Raises BeginError when the found services are not on record (nothing may be stopped then) or the kernel
    has reported a failed GPU since the trial before, NotEmptyError when the GPUs are not free or not sound,
    LeaseLostError when the lease has fired or is another's, SnapshotError, StateFileError or CommandError.
    """
    fired = lease.read_fired(paths)
    if fired is not None:
        raise lease.LeaseLostError(lease.fired_message(fired))
    with lease.Keeper(lease_given, paths) as keeper:
        marks = _begin(trial_unit, trial_id, found_units, gpu_query, kernel, paths)
        if keeper.lost is not None:
            raise lease.LeaseLostError(keeper.lost)
    return marks


def _begin(
    trial_unit: str, trial_id: str, found_units: Sequence[str], gpu_query: str, kernel: str, paths: Paths
) -> dict[str, Any]:
    found = snapshot.read(paths)
    if found is None:
        raise BeginError(
            "%s does not exist: what runs on this host is not on record, so no trial may stop it. "
            "Take the snapshot first (treeline_found, state: snapshot)" % paths.snapshot
        )
    names = list(found_units) or [entry["unit"] for entry in found["found"]]
    snapshot.check_same(found, names, trial_unit)
    # Before it is stopped: what systemd still says about that life is none of this trial's.
    previous = systemd.show(trial_unit, ("InvocationID",)).get("InvocationID", "")
    emptied = gpu_empty.make_empty(gpu_query, trial_unit, names)
    _refuse_failed_node(kernel, paths)
    forget_evidence(paths, but=trial_id)
    gpu_evidence.note_before(paths.evidence / trial_id, emptied)
    return {
        "trial_id": trial_id,
        "previous_invocation_id": previous,
        "cursor": journal_cursor(),
        "at_realtime_usec": clock.realtime_usec(),
        "at_monotonic": clock.monotonic(),
        "boot_id": clock.boot_id(),
        "found": [_state(entry["unit"]) for entry in found["found"]],
        "awake_again": [
            entry["unit"]
            for entry in [*found["dependents"], *found["triggers"]]
            if entry["running"] and _state(entry["unit"])["running"]
        ],
        **emptied.as_dict(),
    }


def _refuse_failed_node(kernel: str, paths: Paths) -> None:
    """A GPU that failed while no trial ran, as when the one before was stopped, has no trial to void."""
    for since in _read_until(paths):
        lines = kernel_log.node_faults(kernel, since, clock.realtime_usec())
        if lines:
            raise BeginError(
                "since the trial before, the kernel has reported a failure of this host: %s. Mend it (reset "
                "the GPU or reboot) and run the sweep again" % "; ".join(lines[:3])
            )


def _read_until(paths: Paths) -> list[int]:
    """Until when the kernel's lines were last read on this host; empty before the first trial of a sweep."""
    files = paths.evidence.glob("*/%s" % kernel_log.UNTIL_NAME)
    found = [int(text) for text in (path.read_text("utf-8").strip() for path in files) if text.isdigit()]
    return [max(found)] if found else []


def journal_cursor() -> Optional[str]:
    """The journal's place now, None while it is empty. Raises CommandError."""
    shown = systemd.run(
        ("journalctl", "--no-pager", "--quiet", "--lines=0", "--show-cursor"), timeout=30, check=True
    )
    for line in shown.stdout.splitlines():
        if line.startswith("-- cursor: "):
            return line[len("-- cursor: ") :].strip()
    return None


def _state(unit: str) -> dict[str, Any]:
    shown = systemd.show(unit, ("ActiveState", "SubState", "InvocationID"))
    state = shown.get("ActiveState", "")
    return {
        "unit": unit,
        "active_state": state,
        "sub_state": shown.get("SubState", ""),
        "invocation_id": shown.get("InvocationID", ""),
        "running": systemd.is_running_state(state),
    }
