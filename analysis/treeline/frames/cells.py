"""What is known of every cell: measured, implied by others, remembered, or open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from treeline import plan as planner
from treeline.controller import liveness
from treeline.frames import schemas
from treeline.frames.keycolumns import with_key_texts
from treeline.keys import KEY_FIELDS
from treeline.plan import History
from treeline.records import Provenance, Sweep
from treeline.store import TrialLog

MEASURED = ("good", "bad", "mixed", "unknown")
_IDENTITY = ["hardware_class", "engine_build", "cell"]
# Such a trial says nothing about its cell; its figures, where it has any, are those of something else.
_SAYS_NOTHING = ("void", "interrupted", "running", "measurement_invalid")


def cells(logs: Sequence[tuple[Sweep, TrialLog]], trials: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each cell of each hardware class and engine build.

    Args:
        logs: sweeps with their trial logs.
        trials: their trials (``frames.trials.of_logs``).

    Where several sweeps speak of a cell, what was measured beats what was implied, and a cell that worked in
    one sweep and failed in another is ``mixed``. Status, class and figures are those of the last trial that
    says something about the cell; ``tok_s`` is the highest over its client keys.
    """
    told = pd.DataFrame(
        [row for sweep, log in logs for row in _told(sweep, log)],
        columns=[*KEY_FIELDS, *_IDENTITY, "state", "reason"],
    )
    if told.empty:
        return schemas.Cells.validate(_described(told, trials))
    told = told.assign(engine_build=told["engine_build"].fillna(""))
    merged = [_merged(group) for _, group in told.groupby(_IDENTITY, sort=False)]
    return schemas.Cells.validate(_described(pd.DataFrame(merged), trials))


def _told(sweep: Sweep, log: TrialLog) -> Iterator[dict[str, Any]]:
    keys = {key.slug: key for key in sweep.plan.restart_keys()}
    for hardware_class in sorted(log.hardware_classes(sweep)):
        history = History.of(
            log,
            hardware_class,
            this_run=lambda claim: True,
            in_flight=lambda claim: liveness(claim.controller) == "alive",
        )
        found = planner.cells(sweep.plan, history.past, sweep.known_of(hardware_class))
        for slug, cell in found.items():
            yield {
                **{name: getattr(keys[slug], name) for name in KEY_FIELDS},
                "hardware_class": hardware_class,
                "engine_build": _build(sweep, hardware_class),
                "cell": slug,
                "state": cell.state,
                "reason": cell.reason,
            }


def _build(sweep: Sweep, hardware_class: str) -> str | None:
    of_class = [entry for entry in sweep.provenance.values() if entry.hardware_class == hardware_class]
    return (of_class[0] if of_class else Provenance()).engine_build


def _merged(group: pd.DataFrame) -> dict[str, Any]:
    """One cell as several sweeps tell of it."""
    states = set(group["state"])
    measured = states & set(MEASURED)
    if "mixed" in measured or {"good", "bad"} <= measured:
        state = "mixed"
    else:
        order = ("bad", "good", "unknown", "known_bad", "implied_bad", "implied_good", "open")
        state = next(name for name in order if name in states)
    row = {str(name): value for name, value in group.iloc[-1].to_dict().items()}
    of_state = group.loc[group["state"] == state, "reason"]
    reason = of_state.iloc[-1] if len(of_state) else "worked in one sweep and failed in another"
    return row | {"state": state, "reason": reason}


def _described(told: pd.DataFrame, trials: pd.DataFrame) -> pd.DataFrame:
    rates = [name for name in trials.columns if name.startswith("tok_s_c")]
    spoken = trials[~trials["status"].isin(_SAYS_NOTHING)].assign(
        engine_build=lambda table: table["engine_build"].fillna(""),
        tok_s=lambda table: table[rates].astype(float).max(axis="columns") if rates else float("nan"),
    )
    grouped = spoken.groupby(_IDENTITY, sort=False)
    shown = ["status", "class", "phase", "kind", "extrapolated", "simulated"]
    # The last trial as a whole: what one of them does not say is not filled in from another.
    last = spoken.drop_duplicates(_IDENTITY, keep="last").set_index(_IDENTITY)[shown]
    means = grouped[["AL", "tok_s"]].mean()
    counts = grouped.size().rename("trials")
    frame = told.merge(pd.concat([last, means, counts], axis="columns"), on=_IDENTITY, how="left").assign(
        trials=lambda table: table["trials"].fillna(0),
        extrapolated=lambda table: table["extrapolated"].astype("boolean").fillna(False),
        simulated=lambda table: table["simulated"].astype("boolean").fillna(bool(trials["simulated"].any())),
    )
    frame = with_key_texts(frame)
    return frame[list(schemas.Cells.to_schema().columns)]
