"""What a plan will cost, in words, before it starts."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from treeline.keys import Plan
from treeline.progress import duration, remaining_s

SHOWN_EXCLUDED = 10


class Rates(msgspec.Struct, frozen=True):
    """Seconds that the parts of one trial take, as estimated before any is measured.

    ``overhead_s`` is what is neither start nor load: configuring, restarting, evidence and the record.
    """

    load_s: float = 360.0
    measure_s: float = 120.0
    overhead_s: float = 10.0

    @property
    def trial_s(self) -> float:
        """Seconds of one trial."""
        return self.load_s + self.measure_s + self.overhead_s


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
    max_trials_per_run: int | None = None,
) -> tuple[str, ...]:
    """Lines that say what will run, for how long, what is down meanwhile and what is left out.

    Args:
        hosts: the targets; none given counts as one.
        units: found units that are stopped on every target while its trials run.
    """
    trials = len(plan.items)
    lines = [f"Plan: {plan.kind}, {count(trials, 'restart')} in dialect {dialect}{_on(hosts)}."]
    lines.append(f"Time: about {_time(trials, rates, len(hosts))}, repeats of doubtful trials not counted.")
    lines.append(
        f"One trial: about {duration(rates.trial_s)} ({duration(rates.load_s)} until the engine serves, "
        f"{duration(rates.measure_s)} of load, {duration(rates.overhead_s)} around them)."
    )
    if units:
        down = ", ".join(units)
        lines.append(f"Down on each host for that time: {down}; started again at the end if running now.")
    risky = [item for item in plan.items if item.key.graphs and item.key.rows > rows_prior]
    if risky:
        above = f"{count(len(risky), 'configuration')} above the rows prior of {rows_prior}"
        lines.append(f"{above}: more likely to fail. A failure is recorded and the sweep goes on.")
    if max_trials_per_run is not None and trials > max_trials_per_run:
        limit = count(max_trials_per_run, "trial")
        lines.append(f"This run ends after {limit}; the same command then goes on.")
    return (*lines, *_excluded(plan))


def _on(hosts: Sequence[str]) -> str:
    if not hosts:
        return ""
    return f" on {hosts[0]}" if len(hosts) == 1 else f" on {len(hosts)} hosts"


def _time(trials: int, rates: Rates, hosts: int) -> str:
    longest = duration(remaining_s(trials, rates.trial_s))
    shared = duration(remaining_s(trials, rates.trial_s, hosts))
    if shared == longest:
        return longest
    return f"{shared} if the {hosts} hosts are of one hardware class and share the plan, {longest} if not"


def _excluded(plan: Plan) -> list[str]:
    if not plan.excluded:
        return []
    lines = [f"Left out: {count(len(plan.excluded), 'configuration')}."]
    lines += [f"  {excluded.key.label}: {excluded.reason}" for excluded in plan.excluded[:SHOWN_EXCLUDED]]
    if len(plan.excluded) > SHOWN_EXCLUDED:
        lines.append(f"  and {len(plan.excluded) - SHOWN_EXCLUDED} more, all in the plan of the sweep")
    return lines
