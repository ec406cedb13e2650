"""What a host is meant to serve: what the newest rollout left it with, else what its inventory says."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from treeline.keys import RestartKey
from treeline.rollout.records import WELL, RolloutStore, rollout_folders


@dataclass(frozen=True)
class Intended:
    """The configuration that a host is meant to serve, and which rollout says so."""

    rollout_id: str
    key: RestartKey
    dialect: str


def intended(results: Path, host: str) -> Intended | None:
    """What the newest rollout that kept its configuration on this host gave it; None: the inventory counts.

    A rollout that rolled the host back says nothing: the one before it counts. One from which the host was
    released, by a deployment over it, leaves it to the inventory. Raises StoreError.
    """
    for folder in rollout_folders(results):
        store = RolloutStore(folder)
        line = store.latest().get(host)
        if line is not None and line.state == "released":
            return None
        if line is not None and line.state in WELL:
            chosen = store.read().chosen[line.hardware_class]
            return Intended(folder.name, chosen.key, chosen.dialect)
    return None
