"""Recording a trial: evidence, measurements, requests, and last of all its ``finished`` line.

The order matters: once ``finished`` stands, everything it speaks of is on the disk. A crash in between
leaves a trial without a verdict, which is run again; what was already written for it stays.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
from treeline_target import redact

from treeline import baselines, evidence, jsonl, node_facts, requests_table
from treeline.controller import liveness
from treeline.plain import clean
from treeline.records import Finished, Provenance, Started, utc_now
from treeline.references import references
from treeline.signatures import LogVerdict, classify_journal
from treeline.steps import Steps
from treeline.store import StoreError, SweepStore
from treeline.trial_record import Ended, Kept, finished, measurements

__all__ = ["Ended", "Recorded", "record"]

LOAD = "load.json"
_ANSWERS = (
    "outcome",
    "reason",
    "phase",
    "msg",
    "canaries",
    "coding",
    "samples",
    "garbled_samples",
    "warmup",
    "not_measured",
    "convergence",
    "soak",
    "engine",
)


@dataclass(frozen=True)
class Recorded:
    """What was written: the ``finished`` line, and remarks about evidence that is missing or cut."""

    line: Finished
    measurements: int
    remarks: tuple[str, ...] = ()


def record(store: SweepStore, ended: Ended) -> Recorded:
    """Make the verdict on a trial and write everything down.

    Raises:
        StoreError: something could not be written; the trial has no verdict then. Or it was not claimed, or
            has a verdict already, or the run that claimed it is gone.
    """
    log = store.read_trials()
    claim = log.started.get(ended.trial_id)
    if claim is None:
        raise StoreError(f"trial {ended.trial_id} was never claimed in {store.folder}")
    if ended.host is not None and ended.host != claim.host:
        raise StoreError(f"trial {ended.trial_id} was claimed by {claim.host}, not by {ended.host}")
    if ended.trial_id in log.finished:
        raise StoreError(f"trial {ended.trial_id} is on record already")
    sweep = store.read_sweep()
    kept = _keep_evidence(store, ended)
    provenance = sweep.provenance.get(claim.host, Provenance(hardware_class=claim.hardware_class))
    against = references(store, log, claim, provenance, ended.baseline)
    kept.remarks.extend(against.remarks)
    line = finished(sweep, claim, ended, kept, utc_now(), against)
    measured = measurements(line, ended.steps.load.mappings("points"), kept.remarks)
    _keep_requests(store, ended.trial_id, kept)
    _keep_answers(ended.steps, kept)
    with store.lock():
        _refuse_the_late(claim)
        moved = [store.append_measurement(measurement) for measurement in measured]
        moved.append(store.append_trial(line))
    kept.remarks.extend(f"a line that was never finished was moved to {path}" for path in moved if path)
    _keep_baseline(store, line, ended.steps, provenance, kept.remarks)
    if ended.archive is not None and kept.folder is not None:
        ended.archive.unlink(missing_ok=True)
        _tidy_incoming(store, ended.archive.parent)
    return Recorded(line, len(measured), tuple(kept.remarks))


def _refuse_the_late(claim: Started) -> None:
    """Raise StoreError where the run of a claim is gone: the next one may have begun the item again already.

    This process outlives its run when ansible-playbook alone is killed; its workers are not told.
    """
    if liveness(claim.controller) == "dead":
        raise StoreError(
            f"trial {claim.trial_id} is not recorded: the run that claimed it (pid {claim.controller.pid} "
            f"on {claim.controller.host}) is gone; the same command again measures it anew"
        )


def _keep_baseline(
    store: SweepStore, line: Finished, steps: Steps, provenance: Provenance, remarks: list[str]
) -> None:
    """A good baseline trial serves every later sweep of this hardware class, build and model."""
    if line.purpose != "baseline" or line.status != "ok":
        return
    try:
        if baselines.store(store.folder.parent, baselines.of_trial(line, steps, provenance)):
            remarks.append("it is stored as the baseline of this hardware class, engine build and model")
    except (baselines.BaselineError, StoreError) as error:
        remarks.append(f"it is not stored as a baseline: {error}")


def _tidy_incoming(store: SweepStore, incoming: Path) -> None:
    """Remove the folder for fetched archives once it is empty and no other trial may fetch into it."""
    if incoming.resolve().parent != store.folder.resolve():
        return
    # Not empty: what could not be used is left for a person to look at. Whatever stands in the way, the trial
    # is on record.
    with suppress(OSError, StoreError), store.lock():
        if all(liveness(claim.controller) == "dead" for claim in store.read_trials().unfinished):
            incoming.rmdir()


def _keep_evidence(store: SweepStore, ended: Ended) -> Kept:
    """Unpack and read the evidence. Bad evidence is a remark; a failing results folder is an error."""
    kept = Kept()
    kept.remarks.extend(node_facts.orphans(ended.steps.begin.mappings("orphans_ended")))
    kept.remarks.extend(clean(note) for note in ended.steps.evidence.get("notes", list) or [])
    if ended.archive is None:
        kept.remarks.append("no evidence was fetched")
        return kept
    folder = store.folder / "evidence" / ended.trial_id
    try:
        unpacked = evidence.unpack(ended.archive, folder)
    except evidence.EvidenceError as error:
        kept.remarks.append(f"the evidence cannot be used: {error}")
        return kept
    kept.remarks.extend(f"{name} of the evidence breaks off" for name in unpacked.cut)
    journal = folder / evidence.JOURNAL
    if evidence.JOURNAL not in unpacked.names:
        kept.remarks.append("the evidence holds no journal")
        return Kept(folder, None, kept.remarks)
    kernel = folder / evidence.KERNEL if evidence.KERNEL in unpacked.names else None
    return Kept(folder, _classify(journal, kernel, ended.steps, kept.remarks), kept.remarks)


def _classify(journal: Path, kernel: Path | None, steps: Steps, remarks: list[str]) -> LogVerdict | None:
    """What the log says. A log that cannot be read is a remark: the verdict rests on the other facts then."""
    try:
        since = steps.begin.get("at_realtime_usec", int)
        return classify_journal(journal, alive=_is_alive(steps), kernel=kernel, kernel_since=since)
    except (OSError, ValueError) as error:
        remarks.append(f"the journal cannot be read: {error}")
        return None


def _is_alive(steps: Steps) -> bool:
    """Whether the engine was alive at the end: by systemd where it was asked, else by the last step."""
    alive = steps.evidence.get("alive", bool)
    if alive is not None:
        return alive
    return steps.ready.text("outcome") in ("ready", "timeout", "mismatch") and steps.load.text("outcome") in (
        None,
        "done",
        "timeout",
    )


def _keep_requests(store: SweepStore, trial_id: str, kept: Kept) -> None:
    source = kept.folder / evidence.REQUESTS if kept.folder else None
    if source is not None and source.exists():
        requests_table.write(source, store.folder / "requests" / f"{trial_id}.parquet", trial_id)


def _keep_answers(steps: Steps, kept: Kept) -> None:
    """Lay what the engine answered beside the evidence: the gates name only which canaries were wrong."""
    if kept.folder is None or not steps.load.ran:
        return
    answers = redact.fields({name: steps.load.data[name] for name in _ANSWERS if name in steps.load.data})
    jsonl.write_atomic(
        kept.folder / LOAD, msgspec.json.format(msgspec.json.encode(answers), indent=1) + b"\n"
    )
