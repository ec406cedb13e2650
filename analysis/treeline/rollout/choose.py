"""Which configuration is rolled out to a hardware class, and why that one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from treeline.records import Provenance
from treeline.rollout.candidates import Candidate, Life, candidates
from treeline.rollout.errors import RolloutRefusedError
from treeline.rollout.objectives import Objective

BEST = "best"
_COMPARED = ("hardware_class", "engine", "engine_build", "model", "driver")
_SHOWN = 5


@dataclass(frozen=True)
class Asked:
    """What the user wants.

    Attributes:
        config: ``best``, or the id of a trial.
        max_age_days: how old a row may be.
        allow_mismatch: roll out although the provenance differs; recorded.
        now: ISO 8601 time of the decision.
    """

    config: str
    objective: Objective
    max_age_days: float
    allow_mismatch: bool
    now: str


@dataclass(frozen=True)
class Choice:
    """What one hardware class gets, and everything that was found about it."""

    candidate: Candidate
    why: tuple[str, ...]
    mismatches: tuple[str, ...]


def choose(lives: Sequence[Life], hosts: Mapping[str, Provenance], asked: Asked) -> dict[str, Choice]:
    """The configuration of each hardware class of the hosts.

    Raises:
        RolloutRefusedError: there is no such row, it is not `ok`, is stale or contradicted, or was measured
            with something else than the hosts have and that was not allowed.
    """
    classes: dict[str, list[str]] = {}
    for host, provenance in hosts.items():
        classes.setdefault(provenance.hardware_class, []).append(host)
    return {
        name: _for_class(lives, name, {host: hosts[host] for host in members}, asked)
        for name, members in sorted(classes.items())
    }


def _for_class(
    lives: Sequence[Life], hardware_class: str, hosts: Mapping[str, Provenance], asked: Asked
) -> Choice:
    if asked.config == BEST:
        picked, why = _best(lives, hardware_class, hosts, asked)
    else:
        picked, why = _named(lives, asked)
    problems = [*_stale(picked, asked), *_contradicted(picked)]
    if problems:
        raise RolloutRefusedError(f"{_label(picked)}: {'; '.join(problems)}")
    mismatches = [
        difference
        for host, provenance in hosts.items()
        for difference in differences(picked, host, provenance)
    ]
    if mismatches and not asked.allow_mismatch:
        raise RolloutRefusedError(
            f"{_label(picked)} was not measured with what the hosts have: {'; '.join(mismatches)}. "
            "Sweep again on such a host, or accept it for this rollout with -e allow_mismatch=true"
        )
    return Choice(picked, tuple(why), tuple(mismatches))


def differences(candidate: Candidate, host: str, provenance: Provenance) -> list[str]:
    """What a host has other than the machine that the row was measured on; unknown values are differences."""
    measured = candidate.provenance
    return [
        f"{host}: {name.replace('_', ' ')} is {getattr(provenance, name) or 'unknown'}, measured with "
        f"{getattr(measured, name) or 'unknown'}"
        for name in _COMPARED
        if getattr(measured, name) != getattr(provenance, name)
    ]


def _best(
    lives: Sequence[Life], hardware_class: str, hosts: Mapping[str, Provenance], asked: Asked
) -> tuple[Candidate, list[str]]:
    every = candidates(lives, asked.objective)
    of_class = [
        one for one in every if one.provenance.hardware_class == hardware_class or asked.allow_mismatch
    ]
    if not of_class:
        known = ", ".join(sorted({one.provenance.hardware_class for one in every})) or "none"
        raise RolloutRefusedError(
            f"no ok trial of hardware class {hardware_class!r} ({', '.join(hosts)}) is on record; "
            f"classes with ok trials: {known}. Sweep on one of its hosts first"
        )
    # Rows measured with what the hosts have come first: a faster row of another build is no claim about them.
    fitting = [one for one in of_class if all(not differences(one, host, p) for host, p in hosts.items())]
    usable = [
        one
        for one in (fitting or of_class)
        if one.value is not None and not _stale(one, asked) and not _contradicted(one)
    ]
    if not usable:
        passed_over = "; ".join(_passed_over(one, asked) for one in of_class[:_SHOWN])
        raise RolloutRefusedError(
            f"no row of hardware class {hardware_class!r} can be rolled out for objective {asked.objective}: "
            f"{passed_over}"
        )
    newest = max(usable, key=lambda one: one.best_life.line.at)
    alike = [one for one in usable if one.context == newest.context]
    best = alike[0]
    why = [f"{asked.objective}: {_figure(best, asked.objective)}, the best of {len(alike)} configurations"]
    why += [f"next: {_label(one)}, {_figure(one, asked.objective)}" for one in alike[1:_SHOWN]]
    why += [
        f"passed over: {_label(one)}: measured at {_context(one)}, the newest row at {_context(newest)}"
        for one in [one for one in usable if one.context != newest.context][:_SHOWN]
    ]
    left_out = [one for one in of_class if one not in usable]
    why += [f"passed over: {_passed_over(one, asked)}" for one in left_out[:_SHOWN]]
    return best, why


def _named(lives: Sequence[Life], asked: Asked) -> tuple[Candidate, list[str]]:
    life = next((one for one in lives if one.line.trial_id == asked.config), None)
    if life is None:
        newest = ", ".join(one.line.trial_id for one in lives if one.line.status == "ok")
        raise RolloutRefusedError(
            f"config: trial {asked.config!r} is not on record. ok trials, newest first: {newest or 'none'}"
        )
    line = life.line
    if line.status != "ok":
        cause = f" ({line.class_} in {line.phase})" if line.class_ else ""
        raise RolloutRefusedError(f"trial {line.trial_id} is {line.status}{cause}, not ok: {line.key.label}")
    if not line.key.speculative:
        raise RolloutRefusedError(f"trial {line.trial_id} is a baseline, the service without speculation")
    same = [one for one in lives if one.line.cell == line.cell and one.provenance == life.provenance]
    candidate = candidates(same, asked.objective)[0]
    return candidate, [f"trial {line.trial_id} was named: {_figure(candidate, asked.objective)}"]


def _stale(candidate: Candidate, asked: Asked) -> list[str]:
    at = candidate.best_life.line.at
    age = (datetime.fromisoformat(asked.now) - datetime.fromisoformat(at)).total_seconds() / 86400
    if age <= asked.max_age_days:
        return []
    return [
        f"stale: measured {age:.0f} days ago, allowed are {asked.max_age_days:g} (rollout_max_age_days); "
        "measure it again"
    ]


def _contradicted(candidate: Candidate) -> list[str]:
    if not candidate.against:
        return []
    line = candidate.against[0].line
    what = f"{line.status}{f' ({line.class_})' if line.class_ else ''}"
    return [
        f"contradicted: ok in {len(candidate.lives)} trial(s), but {what} in {line.trial_id}"
        + (f" and {len(candidate.against) - 1} more" if len(candidate.against) > 1 else "")
    ]


def _passed_over(candidate: Candidate, asked: Asked) -> str:
    reasons = [*_stale(candidate, asked), *_contradicted(candidate)]
    if candidate.value is None:
        reasons.append(f"no figure for {asked.objective}")
    return f"{_label(candidate)}: {'; '.join(reasons) or 'measured with something else than the hosts have'}"


def _figure(candidate: Candidate, objective: Objective) -> str:
    if candidate.value is None:
        return f"no figure for {objective}"
    lives = f"{len(candidate.values)} {'life' if len(candidate.values) == 1 else 'lives'}"
    simulated = ", simulated timing" if candidate.best_life.line.simulated else ""
    return f"{candidate.value:.4g} {objective.unit} ({lives}{simulated})"


def _context(candidate: Candidate) -> str:
    return "no set context" if candidate.context is None else f"context {candidate.context}"


def _label(candidate: Candidate) -> str:
    return f"{candidate.key.label} (trial {candidate.best_life.line.trial_id})"
