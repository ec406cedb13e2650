"""What is written about a trial: its ``finished`` line and its measurements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from treeline import baselines, dialects, gates, verdict
from treeline.keys import Item, RestartKey
from treeline.records import Finished, Gate, Measurement, Started, Sweep, Times, seconds_between
from treeline.references import References
from treeline.signatures import LogVerdict
from treeline.steps import Steps

_POINT_FIELDS = tuple(
    name
    for name in Measurement.__struct_fields__
    if name not in ("trial_id", "sweep_id", "host", "hardware_class", "key", "at", "schema_version")
)


@dataclass(frozen=True)
class Ended:
    """A trial as its host left it.

    Attributes:
        trial_id: the claim.
        item: what was asked for.
        steps: what its modules returned.
        archive: the fetched evidence; None where nothing was fetched.
        dialect: name or path of the dialect, for the verify width.
        failure: what ended the trial's block, where no module said more.
        host: checked against the claim where it is given.
        baseline: the sweep's option of that name, for the gates.
        points_asked: rows that the load was to give; None: one for each client key.
    """

    trial_id: str
    item: Item
    steps: Steps
    archive: Path | None = None
    dialect: str | None = None
    failure: str = ""
    host: str | None = None
    baseline: str = "skip"
    points_asked: int | None = None


@dataclass(frozen=True)
class Kept:
    """The evidence of a trial, as far as there is any."""

    folder: Path | None = None
    log: LogVerdict | None = None
    remarks: list[str] = field(default_factory=list)


def finished(
    sweep: Sweep, claim: Started, ended: Ended, kept: Kept, now: str, against: References | None = None
) -> Finished:
    """The verdict on a trial with everything that belongs to it. ``now`` is the time of the line."""
    against = against or References()
    steps, key = ended.steps, claim.key
    judged = gates.evaluate(
        steps,
        kept.log,
        trial_id=ended.trial_id,
        points_asked=ended.points_asked or len(ended.item.client_keys),
        baseline=ended.baseline,
        stored=against.stored,
        anchor_al=against.anchor_al,
        speculative=key.speculative,
    )
    judged = (*judged, _evidence_gate(kept, steps))
    found = verdict.decide(
        verdict.TrialFacts(key, _width(ended.dialect or sweep.dialect, key), steps, kept.log, judged)
    )
    points = steps.load.mappings("points")
    engine, simulated = _engine(sweep, claim.host, steps)
    throughput = _throughput(points)
    return Finished(
        trial_id=claim.trial_id,
        sweep_id=claim.sweep_id,
        item_id=claim.item_id,
        cell=claim.cell,
        purpose=claim.purpose,
        ordinal=claim.ordinal,
        host=claim.host,
        hardware_class=claim.hardware_class,
        key=key,
        at=now,
        status=found.status,
        effect=found.effect,
        kind=found.kind,
        class_=found.class_,
        phase=found.phase,
        step=found.step,
        first_error=found.first_error or (ended.failure or None if found.status != "ok" else None),
        rank=found.rank,
        captured_bs=found.captured_bs,
        rows=found.rows,
        advice=found.advice,
        evidence=f"evidence/{claim.trial_id}" if kept.folder else None,
        gates=judged,
        al=gates.acceptance_length(points),
        throughput=throughput,
        soak=steps.load.get("soak", dict) or None,
        speedup=baselines.speedups(against.stored, throughput) if against.stored else {},
        speedup_note=None if against.stored else baselines.without(ended.baseline),
        invocation_id=_invocation(steps),
        previous_invocation_id=steps.begin.text("previous_invocation_id"),
        main_pid=steps.ready.get("main_pid", int) or None,
        served=steps.ready.get("served", dict) or {},
        proof=steps.ready.get("proof", dict) or {},
        engine=engine,
        simulated=simulated,
        extrapolated=_extrapolated(steps),
        secondary=found.secondary,
        times=_times(claim, steps, now),
    )


def measurements(line: Finished, points: list[dict[str, Any]], remarks: list[str]) -> list[Measurement]:
    """The rows of a trial. A point that is none is a remark; its requests are kept all the same."""
    rows = []
    for point in points:
        try:
            rows.append(_measurement(line, point))
        except msgspec.ValidationError as error:
            remarks.append(
                f"the point at concurrency {point.get('concurrency')} is not a measurement: {error}"
            )
    return rows


def _evidence_gate(kept: Kept, steps: Steps) -> Gate:
    """Whether the journal was there to be read, and what is known to be missing of it."""
    if kept.log is None:
        return Gate(name="evidence", verdict="not available", detail="; ".join(kept.remarks))
    lost = max(kept.log.lost_lines, steps.evidence.get("lost_lines", int) or 0)
    detail = [f"{lost} lines of the journal are known to be lost", *kept.remarks]
    return Gate(name="evidence", verdict="passed", value=kept.log.lines, detail="; ".join(detail))


def _width(dialect: str, key: RestartKey) -> int:
    """Verify width of the dialect; that of a tree where the dialect cannot be read any more."""
    try:
        return key.block_size if dialects.load(dialect).width == "block_size" else key.width
    except dialects.DialectError:
        return key.width


def _engine(sweep: Sweep, host: str, steps: Steps) -> tuple[str | None, bool]:
    """Which engine it was, by its own word where it answered, else by what is installed on the host."""
    said = steps.load.get("engine", dict) or {}
    info = steps.ready.get("server_info", dict) or {}
    installed = sweep.provenance[host].engine if host in sweep.provenance else None
    name = said.get("name") or info.get("engine") or installed
    if name is None:
        return None, False
    name = "reference" if "reference" in str(name) else str(name)
    return name, bool(said.get("simulated") or info.get("simulated_timing") or name == "reference")


def _extrapolated(steps: Steps) -> bool | None:
    """Whether the engine says that its behaviour here is an extrapolation; None where it does not say."""
    info = steps.ready.get("server_info", dict) or {}
    fault = info.get("fault")
    places = [place for place in (info, fault) if isinstance(place, Mapping)]
    said = [place["extrapolated"] for place in places if isinstance(place.get("extrapolated"), bool)]
    return any(said) if said else None


def _invocation(steps: Steps) -> str | None:
    end = steps.evidence.get("end", dict) or {}
    return steps.ready.text("invocation_id") or str(end.get("invocation_id") or "") or None


def _throughput(points: list[dict[str, Any]]) -> dict[str, float | None]:
    """Output tokens/s by ``gates.point_name``: the mean over the repeats of a point."""
    rates: dict[str, list[float]] = {}
    for point in points:
        if point.get("complete") is not False:
            rate = _number(point.get("output_tok_s"))
            rates.setdefault(gates.point_name(point), []).extend([] if rate is None else [rate])
    return {name: round(fmean(found), 3) if found else None for name, found in rates.items()}


def _times(claim: Started, steps: Steps, now: str) -> Times:
    begun = steps.begin.get("at_monotonic", float)
    started = steps.ready.get("started_at_monotonic", float)
    decided = steps.ready.get("returned_at_monotonic", float)
    return Times(
        started_at=claim.at,
        restart_s=_span(begun, started),
        ready_s=_number(steps.ready.get("ready_s", float)),
        waited_s=_span(started, decided),
        noticed_s=_span(steps.ready.get("died_at_monotonic", float), decided),
        load_s=_number(steps.load.get("load_s", float)),
        total_s=round(seconds_between(claim.at, now), 3),
    )


def _span(earlier: float | None, later: float | None) -> float | None:
    return None if earlier is None or later is None else round(later - earlier, 3)


def _measurement(line: Finished, point: Mapping[str, Any]) -> Measurement:
    values = {name: point[name] for name in _POINT_FIELDS if point.get(name) is not None}
    garble = point.get("garble")
    if isinstance(garble, Mapping):
        values |= {"garbled": garble.get("flagged"), "judged": garble.get("of")}
    values |= {
        "trial_id": line.trial_id,
        "sweep_id": line.sweep_id,
        "host": line.host,
        "hardware_class": line.hardware_class,
        "key": line.key.to_dict(),
        "engine": line.engine,
        "simulated": line.simulated,
        "at": point.get("at") or line.at,
    }
    return msgspec.convert(values, Measurement)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
