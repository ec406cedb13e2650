"""Summaries of frames, each a chain of steps: pure, a frame in and a frame out."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pandas as pd

from treeline.stats import mean_interval

CURVE = ["hardware_class", "engine_build", "slice", "concurrency", "context"]
"""What a line over budgets shares."""

_GPUS = re.compile(r"\s*(\d+)\s*x", re.IGNORECASE)


def gpus(hardware_class: str) -> int:
    """Return how many GPUs a hardware class says it has (``8x B300``); 1 where it says nothing."""
    found = _GPUS.match(hardware_class)
    return int(found[1]) if found else 1


def points(measurements: pd.DataFrame, trials: pd.DataFrame) -> pd.DataFrame:
    """Return measurements with their trial's status, class, purpose and build, and what follows from them.

    ``tok_s_gpu`` is tok/s for each GPU, ``tok_s_user`` the rate that one user sees (1000 / ms per token),
    ``ms_step`` the time of a verify step by which AL and tok/s fit together: 1000 x concurrency x AL / tok/s.
    """
    about = ["trial_id", "status", "class", "purpose", "ordinal", "engine_build", "started_at"]
    return measurements.merge(
        trials[about].rename(columns={"class": "class_"}), on="trial_id", how="left"
    ).assign(
        status=lambda table: table["status"].fillna("unknown"),
        engine_build=lambda table: table["engine_build"].fillna(""),
        tok_s_gpu=lambda table: table["output_tok_s"] / table["hardware_class"].map(gpus).astype("float64"),
        tok_s_user=lambda table: 1000 / table["tpot_p50_ms"].astype("float64").where(lambda ms: ms > 0),
        ms_step=_ms_step,
    )


def _ms_step(table: pd.DataFrame) -> pd.Series:
    running = table["concurrency"].astype("float64")
    if "effective_concurrency" in table:
        running = table["effective_concurrency"].astype("float64").fillna(running)
    rate = table["output_tok_s"].astype("float64").where(lambda values: values > 0)
    return 1000 * running * table["al"].astype("float64") / rate


def lives(points: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each service life and client key: means over its repeats. The unit of comparison.

    Points that were cut short are left out; failed trials stay, with their status.
    """
    identity = [
        *CURVE,
        "budget",
        "maxreq",
        "rows",
        "topk",
        "graphs",
        "label",
        "trial_id",
        "status",
        "purpose",
        "ordinal",
        "sweep_id",
        "host",
    ]
    return (
        points[points["complete"].astype(bool)]
        .groupby(identity, dropna=False, sort=True, as_index=False)
        .agg(
            al=("al", "mean"),
            tok_s=("output_tok_s", "mean"),
            tok_s_gpu=("tok_s_gpu", "mean"),
            tok_s_user=("tok_s_user", "mean"),
            ms_step=("ms_step", "mean"),
            simulated=("simulated", "any"),
        )
    )


def over_lives(lives: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each cell and client key of trials that ended ok: means over lives with intervals.

    Columns ``al``, ``al_low``, ``al_high``, the same for ``tok_s``, and ``n`` lives; the bounds are NaN where
    one life stands alone.
    """
    identity = [*CURVE, "budget", "maxreq", "rows", "label"]
    good = lives[lives["status"] == "ok"]
    rows = []
    for values, group in good.groupby(identity, dropna=False, sort=True):
        row = dict(zip(identity, values, strict=True)) | {"n": len(group)}
        for name in ("al", "tok_s"):
            row |= _interval(name, group[name].dropna().tolist())
        rows.append(row | {"simulated": bool(group["simulated"].any())})
    bounds = [f"{name}{end}" for name in ("al", "tok_s") for end in ("", "_low", "_high")]
    return pd.DataFrame(rows, columns=[*identity, "n", *bounds, "simulated"])


def _interval(name: str, values: list[float]) -> dict[str, float]:
    if not values:
        return dict.fromkeys((name, f"{name}_low", f"{name}_high"), float("nan"))
    found = mean_interval(values)
    low = np.nan if found.low is None else found.low
    high = np.nan if found.high is None else found.high
    return {name: found.value, f"{name}_low": float(low), f"{name}_high": float(high)}


AL_SPREAD_LIMIT = 0.15
"""By how much the acceptance length of one service may differ between concurrencies."""


def al_over_concurrency(lives: pd.DataFrame) -> pd.DataFrame:
    """Return, for each life, the spread of AL over its concurrencies (highest - lowest).

    What is accepted depends on the texts and not on how many requests run; a spread above AL_SPREAD_LIMIT
    speaks for a bug (of batching, of padding) and is flagged ``flat`` false. One concurrency tells nothing.
    """
    told = lives[lives["al"].notna()]
    return (
        told.groupby(["label", "trial_id"], as_index=False, sort=True)
        .agg(concurrencies=("concurrency", "nunique"), al_low=("al", "min"), al_high=("al", "max"))
        .query("concurrencies > 1")
        .assign(
            spread=lambda table: table["al_high"] - table["al_low"],
            flat=lambda table: table["spread"].round(9) <= AL_SPREAD_LIMIT,
        )
        .reset_index(drop=True)
    )


def best_per_budget(over_lives: pd.DataFrame) -> pd.DataFrame:
    """Return, for each line and budget, the request limit with the highest tok/s (else the highest AL)."""
    return (
        over_lives.sort_values(["tok_s", "al"], ascending=False, na_position="last")
        .groupby([*CURVE, "budget"], dropna=False, as_index=False)
        .head(1)
        .sort_values([*CURVE, "budget"], ignore_index=True)
    )


def by_cell(measurements: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each restart key and client key: lives, requests, AL (ratio of sums) and tok/s.

    Needs ``completion_tokens``, ``verify_calls``, ``output_tok_s``, ``requests`` and ``failed``.
    """
    identity = ["hardware_class", "cell", "concurrency", "context"]
    return (
        measurements.groupby(identity, dropna=False, as_index=False, sort=True)
        .agg(
            lives=("trial_id", "nunique"),
            requests=("requests", "sum"),
            failed=("failed", "sum"),
            completion_tokens=("completion_tokens", "sum"),
            verify_calls=("verify_calls", "sum"),
            tok_s=("output_tok_s", "mean"),
            tok_s_sd=("output_tok_s", "std"),
        )
        .assign(al=lambda table: table["completion_tokens"] / table["verify_calls"].where(lambda n: n > 0))
    )


def failures(trials: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each class and phase of trials that did not end ok, the most frequent first."""
    bad = trials[~trials["status"].isin(["ok", "running"])]
    return (
        bad.assign(**{"class": bad["class"].fillna(bad["status"]), "phase": bad["phase"].fillna("-")})
        .groupby(["status", "class", "phase", "kind"], dropna=False, as_index=False)
        .agg(
            trials=("trial_id", "size"),
            cells=("cell", "nunique"),
            budgets=("budget", _span),
            maxreqs=("maxreq", _span),
            rows=("rows", _span),
            first_error=("first_error", "first"),
        )
        .sort_values(["trials", "class"], ascending=[False, True], ignore_index=True)
    )


def _span(values: pd.Series) -> str:
    low, high = int(values.min()), int(values.max())
    return str(low) if low == high else f"{low} to {high}"


def time_budget(trials: pd.DataFrame) -> pd.DataFrame:
    """Return seconds by trial and part, in long form: restart, getting ready, load, the rest.

    The rest is what the controller saw beyond the steps that the target timed: rendering, evidence, record.
    """
    timed = trials[trials["total_s"].notna()]
    parts = timed.assign(
        restart=timed["restart_s"].fillna(0.0),
        ready=timed["ready_s"].fillna(0.0),
        load=timed["load_s"].fillna(0.0),
    ).assign(
        rest=lambda table: (table["total_s"] - table[["restart", "ready", "load"]].sum(axis="columns")).clip(
            lower=0
        )
    )
    return parts.melt(
        id_vars=["sweep_id", "trial_id", "label", "status", "host", "simulated"],
        value_vars=["restart", "ready", "load", "rest"],
        var_name="part",
        value_name="seconds",
    )


def anchors(points: pd.DataFrame) -> pd.DataFrame:
    """Return the anchor's service lives in order: tok/s at its busiest client key, and what the GPUs did.

    ``moved`` is the share by which tok/s differs from the first anchor of its sweep and host.
    """
    anchor = points[(points["purpose"] == "anchor") & (points["status"] == "ok")]
    anchor = anchor.assign(
        temperature_c=_figure(anchor, "temperature_c_max"),
        power_w=_figure(anchor, "power_w"),
    )
    busiest = anchor.groupby("trial_id")["concurrency"].transform("max")
    return (
        anchor[anchor["concurrency"] == busiest]
        .groupby(["sweep_id", "host", "cell", "label", "started_at", "trial_id"], as_index=False, sort=False)
        .agg(
            tok_s=("output_tok_s", "mean"),
            concurrency=("concurrency", "first"),
            temperature_c=("temperature_c", "max"),
            power_w=("power_w", "mean"),
            simulated=("simulated", "any"),
        )
        .sort_values(["sweep_id", "host", "started_at"], ignore_index=True)
        .assign(
            moved=lambda table: (
                table["tok_s"] / table.groupby(["sweep_id", "host", "cell"])["tok_s"].transform("first") - 1
            )
        )
    )


def _figure(frame: pd.DataFrame, name: str) -> pd.Series:
    """A figure of the GPUs: a column of its own, or a field of the JSON text ``telemetry``."""
    if name in frame:
        return frame[name].astype("float64")
    if "telemetry" not in frame:
        return pd.Series(np.nan, index=frame.index, dtype="float64")
    told = [json.loads(text) if isinstance(text, str) else None for text in frame["telemetry"]]
    values = [entry.get(name) if isinstance(entry, dict) else None for entry in told]
    return pd.Series(values, index=frame.index, dtype="float64")


def per_position(points: pd.DataFrame) -> pd.DataFrame:
    """Return how often each draft position was accepted, one row for each cell, client key and position.

    From ``accepted_histogram``: its entry i counts verify steps that accepted i drafts, so that position p
    was accepted in the steps of entries p and above.
    """
    columns = [*CURVE, "budget", "maxreq", "label", "position", "accepted", "steps", "simulated"]
    if "accepted_histogram" not in points:
        return pd.DataFrame(columns=columns)
    told = points[points["accepted_histogram"].notna() & (points["status"] == "ok")]
    rows = []
    for values, group in told.groupby([*CURVE, "budget", "maxreq", "label"], dropna=False, sort=True):
        length = max(len(histogram) for histogram in group["accepted_histogram"])
        total: Any = sum(
            np.pad(np.asarray(h, float), (0, length - len(h))) for h in group["accepted_histogram"]
        )
        steps = float(np.sum(total))
        for position in range(1, length):
            share = float(np.sum(total[position:])) / steps if steps else float("nan")
            row = dict(zip([*CURVE, "budget", "maxreq", "label"], values, strict=True))
            simulated = bool(group["simulated"].any())
            rows.append(
                row | {"position": position, "accepted": share, "steps": steps, "simulated": simulated}
            )
    return pd.DataFrame(rows, columns=columns)


def goodput(points: pd.DataFrame) -> pd.DataFrame:
    """Return requests/s within the service level by client key, where the load was given one to judge by.

    Columns ``goodput`` (requests/s), ``share`` of all requests that kept it (0..1), and ``slo`` in words.
    """
    columns = ["label", "slice", "hardware_class", "concurrency", "simulated"]
    if "goodput" not in points:
        return pd.DataFrame(columns=[*columns, "goodput", "share", "slo"])
    judged = points[points["goodput"].notna()]
    told = [json.loads(text) if isinstance(text, str) else text for text in judged["goodput"]]
    return judged[columns].assign(
        goodput=[_number(entry.get("requests_s")) for entry in told],
        share=[_number(entry.get("share")) for entry in told],
        slo=[
            ", ".join(
                f"{name} <= {entry[key]:g} ms"
                for name, key in (("TTFT", "ttft_ms"), ("TPOT", "tpot_ms"))
                if entry.get(key) is not None
            )
            for entry in told
        ],
    )


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)
