"""How a search went: after each trial, how many cells are decided; and what its audits found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from treeline.keys import Known, Plan
from treeline.plan import History
from treeline.plan.evidence import Evidence
from treeline.plan.history import Past
from treeline.plan.outcome import basis, cells_by
from treeline.plan.search import Search
from treeline.plan.story import hole_bound
from treeline.plan.walk import seen_as
from treeline.records import Sweep
from treeline.store import TrialLog

_COLUMNS = (
    "sweep_id", "hardware_class", "plan", "restarts", "measured", "implied", "remembered", "cells",
    "simulated",
)  # fmt: skip


def course(logs: Sequence[tuple[Sweep, TrialLog]]) -> pd.DataFrame:
    """Return one row for each finished trial of each sweep and hardware class, in their order.

    Columns ``restarts`` (trials so far), ``measured``, ``implied`` and ``remembered`` (cells decided so far,
    by how), ``cells`` (of the plan) and ``simulated``. Lives after the search (confirmations, anchors) count
    as restarts, too.
    """
    rows = []
    for sweep, log in logs:
        simulated = any(line.simulated for line in log.finished.values())
        for hardware_class in sorted({line.hardware_class for line in log.lines}):
            about = {"sweep_id": sweep.sweep_id, "hardware_class": hardware_class, "plan": sweep.plan.kind}
            past, known = _past(log, hardware_class), sweep.known_of(hardware_class)
            for number, counts in enumerate(_decided(sweep.plan, past, known)):
                rows.append(about | counts | {"restarts": number, "simulated": simulated})
    return pd.DataFrame(rows, columns=list(_COLUMNS))


def _decided(plan: Plan, past: Sequence[Past], known: Known) -> Iterator[dict[str, Any]]:
    """Cells by what they rest on, before the first trial and after each."""
    evidence = Evidence()
    for trial in (None, *past):
        if trial is not None:
            evidence.add(trial)
        found = cells_by(plan, evidence, known).values()
        counts = Counter(basis(cell) for cell in found if cell.state != "unknown")
        yield {name: counts[name] for name in ("measured", "implied", "remembered")} | {"cells": len(found)}


def _past(log: TrialLog, hardware_class: str) -> tuple[Past, ...]:
    return History.of(log, hardware_class, this_run=lambda claim: True, in_flight=lambda claim: False).past


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
    """Count the audits of sweeps, each with its repeat against what was implied when it was drawn."""
    clean, contradicted = 0, []
    for sweep, log in logs:
        if sweep.plan.frontier is None:
            continue
        for name in log.hardware_classes(sweep):
            search = Search(sweep.plan.frontier, Evidence.of(_past(log, name)), sweep.known_of(name))
            clean += sum(sheet.clean_audits() for sheet in search.sheets)
            contradicted += [
                f"{sheet.slice.key(found.budget, found.maxreq).label} was implied {found.implied} and is "
                f"{seen_as(found)}"
                for sheet in search.sheets
                for found in sheet.contradictions
                if found.by_audit
            ]
    return AuditCount(clean, tuple(contradicted))
