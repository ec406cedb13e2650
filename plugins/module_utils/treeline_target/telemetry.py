"""What the GPUs did while a load ran: power, use, clocks, temperature and memory, once a second.

Pure: samples in, a summary out. The energy of a stretch of time is the integral of the power (trapezoids); a
stretch that the samples do not cover has none, and the reason is said. Nothing is filled in.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Callable, Iterator, Optional, Sequence, TypeVar

FILE_NAME = "telemetry.ndjson.gz"
# A sample a second is asked for; drivers take their time, and a busy host more of it.
MAX_GAP_S = 3.0
MIN_SHARE = 0.8
NO_SAMPLES = "no sample was taken"

_T = TypeVar("_T")


@dataclass(frozen=True)
class Sample:
    """One GPU at one moment. `at` is CLOCK_MONOTONIC in seconds; W, percent, MHz, degrees C and MiB.

    A value that the GPU does not tell is None.
    """

    at: float
    gpu: str
    power_w: Optional[float] = None
    utilization: Optional[float] = None
    sm_mhz: Optional[float] = None
    memory_mhz: Optional[float] = None
    temperature_c: Optional[float] = None
    memory_mib: Optional[float] = None

    def as_dict(self) -> dict[str, Any]:
        """For files: plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Recording:
    """The samples of one load. `source` names what gave them; `note` says why there are none, or no more."""

    source: Optional[str]
    samples: tuple[Sample, ...] = ()
    note: Optional[str] = None


def summarise(
    recording: Recording, since: float, until: float, tokens: Optional[int] = None
) -> dict[str, Any]:
    """What the samples say about the time from `since` to `until` (CLOCK_MONOTONIC, seconds).

    Returns {source, valid, reason, gpus, samples, power_w, energy_j, tokens_per_joule, utilization,
    sm_mhz, sm_mhz_min, memory_mhz, temperature_c_max, memory_mib_max}. Power and energy are those of all
    GPUs together, the rest means or extremes over all. `energy_j` and `tokens_per_joule` (output tokens of
    the same stretch by its energy) are None unless the stretch is covered and every GPU tells its power.
    """
    inside = [sample for sample in recording.samples if since <= sample.at <= until]
    by_gpu = _by_gpu(recording.samples)
    reason = _why_invalid(recording, by_gpu, since, until)
    energy, why_no_energy = (None, reason) if reason else _energy(by_gpu, since, until)
    length = until - since
    return {
        "source": recording.source,
        "valid": reason is None,
        "reason": reason or why_no_energy,
        "gpus": len({sample.gpu for sample in inside}),
        "samples": len(inside),
        "power_w": None if energy is None else round(energy / length, 3),
        "energy_j": None if energy is None else round(energy, 3),
        "tokens_per_joule": round(tokens / energy, 6) if energy and tokens is not None else None,
        "utilization": _of(_mean, inside, "utilization"),
        "sm_mhz": _of(_mean, inside, "sm_mhz"),
        "sm_mhz_min": _of(min, inside, "sm_mhz"),
        "memory_mhz": _of(_mean, inside, "memory_mhz"),
        "temperature_c_max": _of(max, inside, "temperature_c"),
        "memory_mib_max": _of(max, inside, "memory_mib"),
    }


def annotate(
    points: Sequence[dict[str, Any]], spans: Sequence[tuple[float, float]], recording: Recording
) -> None:
    """Add to each measured point of a load what the samples say about its steady window.

    `spans` are start and end of the points (CLOCK_MONOTONIC), in their order; a point's `window` counts from
    its start. Without one the whole point is taken with all its completion tokens. Sets `telemetry` (see
    `summarise`), `power_w`, `energy_j`, `tokens_per_joule` and `telemetry_reason`.
    """
    for place, point in enumerate(points[: len(spans)]):
        since, until = spans[place]
        tokens, window = point.get("completion_tokens"), point.get("window")
        if window:
            since, until, tokens = since + window["start"], since + window["end"], window["tokens"]
        said = summarise(recording, since, until, tokens)
        point.update({name: said[name] for name in ("power_w", "energy_j", "tokens_per_joule")})
        point.update({"telemetry": said, "telemetry_reason": said["reason"]})


def energy_j(series: Sequence[tuple[float, float]], since: float, until: float) -> float:
    """Joules from `since` to `until` of a series of (seconds, watts) in time order, by trapezoids.

    Between two samples the power is taken as a straight line; before the first and after the last as
    constant. An empty series, or a stretch without length, has none.
    """
    if not series or until <= since:
        return 0.0
    inner = [(at, watts) for at, watts in series if since < at < until]
    points = [(since, _power_at(series, since)), *inner, (until, _power_at(series, until))]
    return sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in _pairs(points))


def _why_invalid(
    recording: Recording, by_gpu: dict[str, list[Sample]], since: float, until: float
) -> Optional[str]:
    if not recording.samples:
        return recording.note or NO_SAMPLES
    if until <= since:
        return "the stretch has no length"
    for gpu, samples in by_gpu.items():
        times = [sample.at for sample in samples]
        count, wanted = sum(1 for at in times if since <= at <= until), MIN_SHARE * (until - since)
        gap = _longest_gap(times, since, until)
        said = ""
        if gap > MAX_GAP_S:
            said = "GPU %s has no sample for %.1f s (allowed %g s)" % (gpu, gap, MAX_GAP_S)
        elif count < int(wanted):
            said = "GPU %s has %d samples in %.1f s (at least %d are needed)" % (
                gpu,
                count,
                until - since,
                int(wanted),
            )
        if said:
            return "%s; %s" % (said, recording.note) if recording.note else said
    return None


def _longest_gap(times: Sequence[float], since: float, until: float) -> float:
    """The longest time within the stretch without a sample (`times` in order), its edges counted.

    A sample just outside serves an edge: a short stretch begins between two samples.
    """
    before = [at for at in times if at < since]
    after = [at for at in times if at > until]
    inside = [at for at in times if since <= at <= until]
    edges = [before[-1] if before else since, *inside, after[0] if after else until]
    return max(later - earlier for earlier, later in _pairs(edges))


def _pairs(items: Sequence[_T]) -> Iterator[tuple[_T, _T]]:
    for place in range(1, len(items)):
        yield items[place - 1], items[place]


def _energy(
    by_gpu: dict[str, list[Sample]], since: float, until: float
) -> tuple[Optional[float], Optional[str]]:
    """(joules of all GPUs, None), or (None, why not)."""
    total = 0.0
    for gpu, samples in by_gpu.items():
        near = [one for one in samples if since - MAX_GAP_S <= one.at <= until + MAX_GAP_S]
        if any(one.power_w is None for one in near):
            return None, "GPU %s does not tell its power" % gpu
        total += energy_j([(one.at, one.power_w or 0.0) for one in near], since, until)
    return total, None


def _power_at(series: Sequence[tuple[float, float]], moment: float) -> float:
    earlier = [point for point in series if point[0] <= moment]
    later = [point for point in series if point[0] >= moment]
    if not earlier:
        return later[0][1]
    if not later:
        return earlier[-1][1]
    (start, low), (end, high) = earlier[-1], later[0]
    return low if end <= start else low + (high - low) * (moment - start) / (end - start)


def _by_gpu(samples: Sequence[Sample]) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {}
    for sample in samples:
        found.setdefault(sample.gpu, []).append(sample)
    for series in found.values():
        series.sort(key=lambda sample: sample.at)
    return found


def _of(how: Callable[[list[float]], float], samples: Sequence[Sample], name: str) -> Optional[float]:
    values = [value for value in (getattr(sample, name) for sample in samples) if value is not None]
    return round(how(values), 3) if values else None


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
