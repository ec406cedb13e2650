"""What a plan will cost, in words, before it starts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from treeline.keys import Plan
from treeline.plan import Expected, expected
from treeline.plan.expect import most_of_search
from treeline.progress import duration, remaining_s
from treeline.records import Finished
from treeline.request.reader import Options

SHOWN_EXCLUDED = 10
# Hosts that one slice keeps busy: its walk goes step by step, and the others can only look ahead.
HOSTS_A_SLICE = 2


class Rates(msgspec.Struct, frozen=True):
    """Seconds that the parts of one trial take.

    ``overhead_s`` is what is neither start nor load: configuring, restarting, evidence and the record.
    ``trials``: from how many earlier trials they were taken; 0: they are estimates.
    """

    load_s: float = 360.0
    measure_s: float = 120.0
    overhead_s: float = 10.0
    trials: int = 0

    @property
    def trial_s(self) -> float:
        """Seconds of one trial."""
        return self.load_s + self.measure_s + self.overhead_s


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """What a run and a sweep may cost; None: no limit."""

    max_trials_per_run: int | None = None
    max_restarts: int | None = None
    max_hours: float | None = None

    @classmethod
    def of(cls, options: Options) -> Costs:
        """The limits among the options of a request."""
        return cls(
            max_trials_per_run=options.max_trials_per_run,
            max_restarts=options.max_restarts,
            max_hours=options.max_hours,
        )


def measured_rates(finished: Iterable[Finished], usual: Rates | None = None) -> Rates | None:
    """Medians of what earlier trials took; None where none of them was measured to its end.

    ``usual`` gives the parts that no trial tells.
    """
    from statistics import median  # here, because importing it takes longer than the rest of this module

    usual = usual or Rates()
    whole = [line for line in finished if line.status == "ok" and line.times.total_s]
    starts = [line.times.waited_s for line in whole if line.times.waited_s is not None]
    loads = [line.times.load_s for line in whole if line.times.load_s is not None]
    if not starts:
        return None
    rests = [
        max((line.times.total_s or 0.0) - (line.times.waited_s or 0.0) - (line.times.load_s or 0.0), 0.0)
        for line in whole
        if line.times.waited_s is not None and line.times.load_s is not None
    ]
    return Rates(
        load_s=median(starts),
        measure_s=median(loads) if loads else usual.measure_s,
        overhead_s=median(rests) if rests else usual.overhead_s,
        trials=len(starts),
    )


def count(number: int, noun: str) -> str:
    """A number and its noun, in the plural where it belongs."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def forecast_lines(
    plan: Plan,
    *,
    dialect: str,
    rates: Rates,
    rows_prior: int,
    hosts: Sequence[str] = (),
    units: Sequence[str] = (),
    costs: Costs | None = None,
) -> tuple[str, ...]:
    """Lines that say what will run, for how long, what is down meanwhile and what is left out.

    Args:
        hosts: the targets; none given counts as one.
        units: found units that are stopped on every target while its trials run.
        costs: limits of the run and of the sweep.

    Nothing is known of any hardware class before a host is asked, so a baseline is counted.
    """
    coming = expected(plan)
    lines = [_plan_line(plan, coming, dialect, hosts), *_stage_lines(plan, coming)]
    lines.append(f"Time: about {_time(plan, coming, rates, len(hosts))}, {_not_counted(plan)}.")
    basis = f", as measured in {count(rates.trials, 'earlier trial')}" if rates.trials else ""
    lines.append(
        f"One trial: about {duration(rates.trial_s)} ({duration(rates.load_s)} until the engine serves, "
        f"{duration(rates.measure_s)} of load, {duration(rates.overhead_s)} around them{basis})."
    )
    if units:
        down = ", ".join(units)
        lines.append(f"Down on each host for that time: {down}; started again at the end if running now.")
    risky = [item for item in plan.items if item.key.graphs and item.key.rows > rows_prior]
    if risky:
        above = f"{count(len(risky), 'configuration')} above the rows prior of {rows_prior}"
        lines.append(f"{above}: more likely to fail. A failure is recorded and the sweep goes on.")
    return (*lines, *_limits(coming.total, costs or Costs(), rates), *_excluded(plan))


def _plan_line(plan: Plan, coming: Expected, dialect: str, hosts: Sequence[str]) -> str:
    where = f"in dialect {dialect}{_on(hosts)}"
    if plan.frontier is None:
        return f"Plan: {plan.kind}, {count(coming.total, 'restart')} {where}."
    slices = plan.frontier.slices
    cells = sum(len(column.maxreqs) for part in slices for column in part.columns)
    searched = f"{count(cells, 'configuration')} in {count(len(slices), 'slice')}"
    return f"Plan: frontier of {searched}, about {count(coming.total, 'restart')} {where}."


def _stage_lines(plan: Plan, coming: Expected) -> list[str]:
    lines = []
    if plan.baseline is not None and coming.baseline:
        lines.append(
            "Baseline: 1 restart without speculation, unless an earlier one of the same hardware class, "
            "engine build and model is stored."
        )
    if plan.frontier is not None:
        most = most_of_search(plan.frontier)
        lines.append(
            f"Search: about {coming.walk} restarts along the border, {coming.confirmations} confirmations, "
            f"{coming.audits} audits; at most {most} where failures are monotone, more where they are not or "
            "are repeated."
        )
    if plan.finals is not None:
        lives = f"{count(plan.finals.finalists, 'finalist')} x {count(plan.finals.lives, 'life')}"
        words = [f"{lives.replace('lifes', 'lives')} and anchors between them"] if plan.finals.lives else []
        if plan.finals.soak_s is not None:
            words.append(f"a soak of {duration(plan.finals.soak_s)} of the winner")
        lines.append(f"After it: {', '.join(words)}; the best by {plan.finals.objective}.")
    return lines


def _not_counted(plan: Plan) -> str:
    if plan.frontier is None:
        return "repeats of doubtful trials not counted"
    return "an estimate that is renewed as the border gets known"


def _limits(restarts: int, costs: Costs, rates: Rates) -> list[str]:
    lines = []
    if costs.max_trials_per_run is not None and restarts > costs.max_trials_per_run:
        limit = count(costs.max_trials_per_run, "trial")
        lines.append(f"This run ends after {limit}; the same command then goes on.")
    if costs.max_restarts is not None:
        lines.append(
            f"Ends after {count(costs.max_restarts, 'restart')} of the whole sweep (max_restarts), with what "
            "is known then; a larger number goes on."
        )
    if costs.max_hours is not None:
        whole = int(costs.max_hours * 3600 // max(rates.trial_s, 1.0))
        lines.append(
            f"Ends before {costs.max_hours:g} hours of work are over (max_hours), about "
            f"{count(whole, 'trial')} on each host, with what is known then; a larger number goes on."
        )
    return lines


def _on(hosts: Sequence[str]) -> str:
    if not hosts:
        return ""
    return f" on {hosts[0]}" if len(hosts) == 1 else f" on {len(hosts)} hosts"


def _time(plan: Plan, coming: Expected, rates: Rates, hosts: int) -> str:
    soaking = coming.soaks * (plan.finals.soak_s or 0.0) if plan.finals is not None else 0.0
    longest = remaining_s(coming.total, rates.trial_s) + soaking
    busy = hosts
    if plan.frontier is not None:
        busy = min(hosts, HOSTS_A_SLICE * len(plan.frontier.slices))
    in_turn = coming.lives + coming.soaks
    shared = remaining_s(coming.total - in_turn, rates.trial_s, busy) + soaking
    shared += remaining_s(in_turn, rates.trial_s, min(max(hosts, 1), 2))
    if hosts < 2 or duration(shared) == duration(longest):
        return duration(longest)
    return (
        f"{duration(shared)} if the {hosts} hosts are of one hardware class and share the plan, "
        f"{duration(longest)} if not"
    )


def _excluded(plan: Plan) -> list[str]:
    if not plan.excluded:
        return []
    lines = [f"Left out: {count(len(plan.excluded), 'configuration')}."]
    lines += [f"  {excluded.key.label}: {excluded.reason}" for excluded in plan.excluded[:SHOWN_EXCLUDED]]
    if len(plan.excluded) > SHOWN_EXCLUDED:
        lines.append(f"  and {len(plan.excluded) - SHOWN_EXCLUDED} more, all in the plan of the sweep")
    return lines
