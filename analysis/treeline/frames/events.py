"""Failures of Ansible tasks of many sweeps as one frame."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from treeline.events import EVENTS, read_events
from treeline.frames import schemas

_COLUMNS = ("at", "host", "kind", "task", "msg", "phase", "trial_id")


def events(folders: Iterable[Path]) -> pd.DataFrame:
    """Return the events of sweep folders: what failed, was retried or unreachable. They decide nothing.

    Raises:
        StoreError: a folder's events cannot be read.
    """
    rows = [
        {"sweep_id": folder.name, "class": event.class_} | {name: getattr(event, name) for name in _COLUMNS}
        for folder in folders
        for event in read_events(folder / EVENTS)
    ]
    frame = pd.DataFrame(rows, columns=["sweep_id", "class", *_COLUMNS])
    return schemas.Events.validate(frame)
