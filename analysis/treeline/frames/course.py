"""How a search went: after each trial, how many cells are decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from treeline import plan as planner
from treeline.plan import History
from treeline.plan.story import hole_bound
from treeline.records import Sweep
from treeline.store import TrialLog

_OPEN = ("open", "unknown")


def course(logs: Sequence[tuple[Sweep, TrialLog]]) -> pd.DataFrame:
    """Return one row for each finished trial of each sweep and hardware class, in their order.

    Columns ``restarts`` (trials so far), ``measured`` and ``implied`` (cells decided so far, by how),
    ``cells`` (of the plan) and ``simulated``. Lives after the search (confirmations, anchors) count as
    restarts, too.
    """
    rows = []
    for sweep, log in logs:
        for hardware_class in sorted({line.hardware_class for line in log.lines}):
            history = History.of(
                log, hardware_class, this_run=lambda claim: True, in_flight=lambda claim: False
            )
            simulated = any(line.simulated for line in log.finished.values())
            for number in range(len(history.past) + 1):
                found = planner.cells(sweep.plan, history.past[:number]).values()
                states = [cell.state for cell in found]
                implied = sum(state.startswith("implied") for state in states)
                decided = sum(state not in _OPEN for state in states)
                rows.append(
                    {
                        "sweep_id": sweep.sweep_id,
                        "hardware_class": hardware_class,
                        "plan": sweep.plan.kind,
                        "restarts": number,
                        "measured": decided - implied,
                        "implied": implied,
                        "cells": len(states),
                        "simulated": simulated,
                    }
                )
    return pd.DataFrame(
        rows,
        columns=[
            "sweep_id", "hardware_class", "plan", "restarts", "measured", "implied", "cells", "simulated",
        ],
    )  # fmt: skip


@dataclass(frozen=True)
class AuditCount:
    """Audits of implied cells: how many agreed with what was implied, and which did not."""

    clean: int = 0
    contradicted: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """What the audits say about the implied cells, in a sentence."""
        if self.contradicted:
            return (
                f"Implied cells were contradicted by {len(self.contradicted)} of "
                f"{self.clean + len(self.contradicted)} audits: {', '.join(self.contradicted)}."
            )
        bound = hole_bound(self.clean)
        noun = "audit" if self.clean == 1 else "audits"
        return (
            f"{self.clean} {noun} of implied cells, none contradicted: with 95 % confidence less than "
            f"{bound:.0%} of the implied cells are wrong."
        )


def audits(logs: Sequence[tuple[Sweep, TrialLog]]) -> AuditCount:
    """Count the audits of sweeps, each against what was implied before its verdict."""
    clean, contradicted = 0, []
    for sweep, log in logs:
        for line in log.finished.values():
            if line.purpose != "audit" or line.effect not in ("good", "bad"):
                continue
            history = History.of(
                log, line.hardware_class, this_run=lambda claim: True, in_flight=lambda claim: False
            )
            number = next(at for at, past in enumerate(history.past) if past.trial_id == line.trial_id)
            before = planner.cells(sweep.plan, history.past[:number]).get(line.cell)
            if before is None or not before.state.startswith("implied"):
                continue
            if before.state == f"implied_{line.effect}":
                clean += 1
            else:
                contradicted.append(f"{line.key.label} was implied {before.state[8:]} and is {line.effect}")
    return AuditCount(clean, tuple(contradicted))
