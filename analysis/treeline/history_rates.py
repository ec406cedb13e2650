"""How long trials took so far, from the sweeps that are on the disk."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from treeline.request.forecast import Rates, measured_rates
from treeline.store import StoreError, SweepStore, sweep_folders

# Newer sweeps tell more about the next one, and reading all of them would take ever longer.
NEWEST = 5


def rates_of_results(results: Path, hosts: Collection[str] | None = None) -> Rates | None:
    """What trials took in the newest sweeps of a results folder; None where none tells.

    Args:
        hosts: only trials of these hosts count; None for all. A sweep that cannot be read does not count.
    """
    finished = []
    for folder in sweep_folders(results)[:NEWEST]:
        try:
            log = SweepStore(folder).read_trials()
        except StoreError:
            continue
        finished += [line for line in log.finished.values() if hosts is None or line.host in hosts]
    return measured_rates(finished)
