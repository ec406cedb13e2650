"""Trials of many sweeps as one frame: every service life, failed and interrupted ones included."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from treeline.frames import schemas
from treeline.frames.keycolumns import with_key_texts
from treeline.records import Finished, Provenance, Started, Sweep
from treeline.report.frame import trials_frame
from treeline.store import TrialLog

TIMES = ("restart_s", "ready_s", "waited_s", "noticed_s", "load_s")


def of_logs(logs: Sequence[tuple[Sweep, TrialLog]]) -> pd.DataFrame:
    """Return every trial of sweeps, in the order of the sweeps and of their claims.

    To the columns of ``treeline.report.frame.trials_frame`` come the sweep, what was measured with, the
    steps' durations in s and the slice. Throughput columns (``tok_s_c8``) are those of all sweeps together.

    Raises:
        pandera.errors.SchemaError: values are out of their range.
    """
    parts = [_one(sweep, log) for sweep, log in logs]
    parts = [part for part in parts if not part.empty] or [_one_empty()]
    frame = pd.concat(parts, ignore_index=True) if len(parts) > 1 else parts[0]
    frame = with_key_texts(frame).assign(
        simulated=lambda table: table["simulated"].astype("boolean").fillna(False),
        extrapolated=lambda table: table["extrapolated"].astype("boolean").fillna(False),
    )
    return schemas.Trials.validate(frame.astype(dict.fromkeys(TIMES, "float64")))


def _one(sweep: Sweep, log: TrialLog) -> pd.DataFrame:
    frame = trials_frame(log)
    more = pd.DataFrame(
        [
            _more(sweep, log.started[trial_id], log.finished.get(trial_id))
            for trial_id in frame["trial_id"].tolist()
        ],
        index=frame.index,
    )
    return pd.concat([frame, more], axis="columns") if len(frame) else _one_empty()


def _more(sweep: Sweep, claim: Started, verdict: Finished | None) -> dict[str, object]:
    about = sweep.provenance.get(claim.host, Provenance())
    times = {name: getattr(verdict.times, name) if verdict else None for name in TIMES}
    return {
        "sweep_id": sweep.sweep_id,
        "dialect": sweep.dialect,
        "engine_build": about.engine_build,
        "model": about.model,
        "driver": about.driver,
        "seq": claim.seq,
        **times,
    }


def _one_empty() -> pd.DataFrame:
    more = ["sweep_id", "dialect", "engine_build", "model", "driver", "seq", *TIMES]
    frame = trials_frame(TrialLog())
    return frame.reindex(columns=[*frame.columns, *more])
