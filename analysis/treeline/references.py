"""What a trial is held against: the stored baseline, and the anchor's acceptance on the same prompts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from treeline import baselines
from treeline.baselines import Baseline
from treeline.gates import point_name
from treeline.keys import RestartKey
from treeline.records import Measurement, Provenance, Started
from treeline.store import SweepStore, TrialLog


@dataclass(frozen=True)
class References:
    """What there is to compare with; ``remarks`` say what could not be had.

    ``anchor_al`` is the anchor's acceptance length by point, empty where it says nothing about this trial.
    """

    stored: Baseline | None = None
    anchor_al: dict[str, float] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


def references(
    store: SweepStore, log: TrialLog, claim: Started, provenance: Provenance, baseline: str
) -> References:
    """References of one trial. With the sweep's option ``baseline`` at ``skip`` the stored one stays out."""
    remarks: list[str] = []
    stored = None
    if baseline == "auto":
        try:
            stored = baselines.find(store.folder.parent, provenance)
        except baselines.BaselineError as error:
            remarks.append(str(error))
    return References(stored, _anchor_al(store, log, claim), tuple(remarks))


def _anchor_al(store: SweepStore, log: TrialLog, claim: Started) -> dict[str, float]:
    """Of the newest good anchor of this hardware class whose tree is no larger than the trial's.

    A smaller tree may accept less than 0.6 of the anchor's and be sound, so the anchor says nothing about it.
    """
    anchors = [
        line
        for line in log.finished.values()
        if line.purpose == "anchor" and line.status == "ok" and line.hardware_class == claim.hardware_class
    ]
    fitting = [line for line in anchors if _no_larger(line.key, claim.key)]
    if not fitting:
        return {}
    newest = max(fitting, key=lambda line: line.at)
    return _by_point(row for row in store.read_measurements() if row.trial_id == newest.trial_id)


def _no_larger(anchor: RestartKey, key: RestartKey) -> bool:
    return (
        key.speculative
        and anchor.budget <= key.budget
        and anchor.topk <= key.topk
        and anchor.block_size <= key.block_size
    )


def _by_point(rows: Iterable[Measurement]) -> dict[str, float]:
    return {
        point_name({"concurrency": row.concurrency, "context": row.context}): row.al
        for row in rows
        if row.al is not None
    }
