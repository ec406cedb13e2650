"""The stored baseline: what a hardware class says and serves without speculation.

It is measured once per hardware class, engine build and model, and reused: gates compare answers with it,
and speed-up is a ratio to it. One JSON file each, ``<results>/baselines/<hardware class>/<engine
build>--<model>.json``, written when a trial of purpose ``baseline`` has ended well. A changed driver makes
it another baseline.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from treeline import jsonl
from treeline.keys import RestartKey
from treeline.records import Finished, Provenance
from treeline.steps import Steps

FOLDER = "baselines"
SCHEMA_VERSION = 1

_UNSAFE = re.compile(r"[^A-Za-z0-9_.+-]+")
_EXACT_TYPES = ("float32", "fp32", "float", "float64", "torch.float32")
# Its arithmetic is whole counts and double precision, the same with and without drafts.
_EXACT_ENGINES = ("reference",)
_LONGEST_NAME = 80


class BaselineError(Exception):
    """A stored baseline cannot be used, or a trial cannot become one; the message says why."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What it answered to one canary: right or wrong alone and at the busiest point (None: not asked).

    ``expect`` is what was searched for: a canary that was changed since is another one.
    """

    expect: str
    single: bool | None = None
    busiest: bool | None = None
    got: str | None = None


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One output: token ids, and nats between the two likeliest tokens at each place (None: not known)."""

    id: str
    prompt_sha256: str
    tokens: tuple[int, ...] | None = None
    margins: tuple[float | None, ...] | None = None
    text: str = ""


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """One stored baseline.

    ``throughput`` is output tokens/s by point (``32``, ``32@4096``); ``exact`` says that the arithmetic
    does not round, so that outputs must agree everywhere; ``looping_share`` is the highest share of outputs
    of a point that ended in a loop.
    """

    hardware_class: str
    engine_build: str
    model: str
    trial_id: str
    sweep_id: str
    host: str
    at: str
    key: RestartKey
    engine: str | None = None
    driver: str | None = None
    simulated: bool = False
    exact: bool = False
    canaries: dict[str, Answer] = {}
    coding: dict[str, bool] = {}
    samples: tuple[Sample, ...] = ()
    looping_share: float | None = None
    throughput: dict[str, float] = {}
    schema_version: int = SCHEMA_VERSION

    def verdict_on(self, canary: Mapping[str, Any], phase: str) -> bool | None:
        """Whether it answered this canary right in this phase, or in the other where it was not asked in it.

        None where it was never asked it, or where what counts as right has changed since.
        """
        answer = self.canaries.get(str(canary.get("id")))
        if answer is None or answer.expect != canary.get("expect"):
            return None
        first, second = (
            (answer.busiest, answer.single) if phase == "busiest" else (answer.single, answer.busiest)
        )
        return first if first is not None else second

    def was_right(self, canary: Mapping[str, Any], phase: str) -> bool:
        """Whether its answer to this canary can serve as the reference."""
        return self.verdict_on(canary, phase) is True


def path_of(results_dir: Path, provenance: Provenance) -> Path | None:
    """Where the baseline of this provenance lies; None where class, build or model is not known."""
    if not provenance.hardware_class or not provenance.engine_build or not provenance.model:
        return None
    name = f"{_slug(provenance.engine_build)}--{_slug(provenance.model)}.json"
    return results_dir / FOLDER / _slug(provenance.hardware_class) / name


def find(results_dir: Path, provenance: Provenance) -> Baseline | None:
    """The stored baseline for this provenance, None where there is none.

    Raises:
        BaselineError: a file is there and cannot be read; the message names it.
    """
    path = path_of(results_dir, provenance)
    if path is None:
        return None
    stored = _read(path)
    return stored if stored is not None and _belongs(stored, provenance) else None


def of_trial(line: Finished, steps: Steps, provenance: Provenance) -> Baseline:
    """The baseline that a finished trial gives.

    Raises:
        BaselineError: it is no baseline trial, has not ended well, or its host does not say what it is.
    """
    if line.purpose != "baseline" or line.key.speculative:
        raise BaselineError(f"trial {line.trial_id} measured {line.key.label} to {line.purpose}, no baseline")
    if line.status != "ok":
        raise BaselineError(f"trial {line.trial_id} ended as {line.status} and cannot serve as a baseline")
    if not provenance.hardware_class or not provenance.engine_build or not provenance.model:
        raise BaselineError(
            f"{line.host} does not say its hardware class, engine build and model: its baseline has no place"
        )
    points = steps.load.mappings("points")
    return Baseline(
        hardware_class=provenance.hardware_class,
        engine_build=provenance.engine_build,
        model=provenance.model,
        trial_id=line.trial_id,
        sweep_id=line.sweep_id,
        host=line.host,
        at=line.at,
        key=line.key,
        engine=provenance.engine,
        driver=provenance.driver,
        simulated=line.simulated,
        exact=_is_exact(provenance, steps),
        canaries=_canaries(steps.load.mappings("canaries")),
        coding=_coding(steps.load.mappings("coding")),
        samples=_samples(steps.load.mappings("samples")),
        looping_share=_looping_share(points),
        throughput={name: rate for name, rate in line.throughput.items() if rate is not None},
    )


def store(results_dir: Path, baseline: Baseline) -> bool:
    """Keep a baseline; False where one of the same provenance is there already, which stays.

    A file that cannot be read, or is of another driver, is replaced.

    Raises:
        StoreError: it could not be written; what stood there before still stands.
        BaselineError: it does not say what it belongs to.
    """
    provenance = Provenance(
        hardware_class=baseline.hardware_class,
        engine=baseline.engine,
        engine_build=baseline.engine_build,
        model=baseline.model,
        driver=baseline.driver,
    )
    path = path_of(results_dir, provenance)
    if path is None:
        raise BaselineError(f"the baseline of trial {baseline.trial_id} does not say what it belongs to")
    try:
        stored = _read(path)
    except BaselineError:
        stored = None
    if stored is not None and _belongs(stored, provenance):
        return False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise jsonl.StoreError(f"{path.parent} cannot be made: {error.strerror}") from error
    jsonl.write_atomic(path, msgspec.json.format(msgspec.json.encode(baseline), indent=1) + b"\n")
    return True


def speedups(baseline: Baseline, throughput: Mapping[str, float | None]) -> dict[str, float]:
    """Output tokens/s over the baseline's, by point; only points that both have."""
    return {
        name: round(rate / baseline.throughput[name], 4)
        for name, rate in throughput.items()
        if rate is not None and baseline.throughput.get(name)
    }


def without(asked: str) -> str:
    """Why a row has no speed-up, in words."""
    none = "no baseline of this hardware class, engine build and model is stored"
    return none if asked == "auto" else f"{none} (baseline={asked})"


def _read(path: Path) -> Baseline | None:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BaselineError(f"the baseline {path} cannot be read: {error.strerror}") from error
    try:
        return msgspec.json.decode(data, type=Baseline)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise BaselineError(
            f"the baseline {path} is damaged ({error}); remove it, and it is measured again"
        ) from error


def _belongs(stored: Baseline, provenance: Provenance) -> bool:
    """Whether the content says so: names of files are shortened. An unknown driver excludes nothing."""
    exact = (
        (stored.hardware_class, provenance.hardware_class),
        (stored.engine_build, provenance.engine_build),
        (stored.model, provenance.model),
    )
    loose = ((stored.driver, provenance.driver), (stored.engine, provenance.engine))
    return all(one == other for one, other in exact) and all(
        None in pair or pair[0] == pair[1] for pair in loose
    )


def _slug(text: str) -> str:
    """A name that is safe in a path. What is lost in it is told apart by a short hash."""
    plain = _UNSAFE.sub("_", text).strip("._") or "_"
    if plain == text and len(plain) <= _LONGEST_NAME:
        return plain
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{plain[-_LONGEST_NAME:].strip('._')}-{digest}"


def _is_exact(provenance: Provenance, steps: Steps) -> bool:
    """Whether its arithmetic gives the same tokens at any batch size: float32, or the reference engine's."""
    info = steps.ready.get("server_info", dict) or {}
    engine = str(info.get("engine") or provenance.engine or "")
    return str(info.get("dtype")) in _EXACT_TYPES or any(name in engine for name in _EXACT_ENGINES)


def _canaries(rows: Sequence[Mapping[str, Any]]) -> dict[str, Answer]:
    found: dict[str, Answer] = {}
    for row in rows:
        if row.get("error") or not isinstance(row.get("expect"), str):
            continue
        name, right = str(row.get("id")), bool(row.get("ok"))
        before = found.get(name, Answer(expect=str(row["expect"])))
        busiest = row.get("phase") == "busiest"
        found[name] = Answer(
            expect=before.expect,
            single=before.single if busiest else right,
            busiest=right if busiest else before.busiest,
            got=str(row.get("got")) if busiest or before.got is None else before.got,
        )
    return found


def _coding(rows: Sequence[Mapping[str, Any]]) -> dict[str, bool]:
    """Tasks that ran; one counts as passed where it did so in every phase."""
    found: dict[str, bool] = {}
    for row in rows:
        if row.get("outcome") in ("passed", "failed"):
            name = str(row.get("id"))
            found[name] = found.get(name, True) and row["outcome"] == "passed"
    return found


def _samples(rows: Sequence[Mapping[str, Any]]) -> tuple[Sample, ...]:
    fields = Sample.__struct_fields__
    kept = []
    for row in rows:
        if row.get("error") or not row.get("tokens"):
            continue
        try:
            kept.append(msgspec.convert({name: row[name] for name in fields if name in row}, Sample))
        except msgspec.ValidationError:
            continue  # a row that is none serves nobody; the gate counts what is left
    return tuple(kept)


def _looping_share(points: Sequence[Mapping[str, Any]]) -> float | None:
    """The share that the gate would judge by: points with few long outputs say nothing."""
    # The gates read stored baselines, so they are imported late.
    from treeline.gates.judging import LIMITS
    from treeline.gates.outputs import looping_shares

    return max(looping_shares(points, LIMITS.outputs), default=(None, ""))[0]
