"""The summary of a sweep: `summary.csv` and `summary.md` in its folder, and a table for the terminal.

Works on a sweep at any time, finished or not; reading takes no lock. Whatever comes from a log is cleaned of
control characters and escaped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from treeline import jsonl
from treeline.events import EVENTS, FailureEvent, read_events, render
from treeline.outcomes import host_states
from treeline.plain import clean
from treeline.records import HostState, Sweep
from treeline.report.apart import draw_page
from treeline.report.frame import trials_frame
from treeline.report.table import (
    EXTRAPOLATED,
    cells,
    csv_table,
    escape_markdown,
    extrapolated,
    markdown_table,
    terminal_table,
)
from treeline.status import known_lines
from treeline.store import StoreError, SweepStore, TrialLog

CSV = "summary.csv"
OTHER_CSV = "summary-other.csv"
MARKDOWN = "summary.md"
OTHER_TITLE = "Repeats and other trials"
SIMULATED = "engine=reference, simulated timing: tok/s says nothing about any GPU"
EXTRAPOLATED_NOTE = f"{EXTRAPOLATED} behind a status: extrapolated, never observed in the field"


@dataclass(frozen=True)
class Summary:
    """What was written, and the text for the terminal."""

    table: str
    csv: Path
    markdown: Path
    trials: int
    """Trials in the main table: one for each item of the plan that was begun."""
    counts: dict[str, int]
    """Status to number of trials, main table only."""
    page: Path | None = None
    """The report, where one was asked for and drawn."""
    remark: str = ""
    """Why no report was drawn, where one was asked for."""


@dataclass(frozen=True)
class _Facts:
    sweep: Sweep
    log: TrialLog
    folder: Path
    main: pd.DataFrame
    other: pd.DataFrame
    events: list[FailureEvent]
    restored: dict[str, str]
    """Per host what is known of its services, in words."""

    @property
    def simulated(self) -> bool:
        return any(bool(value) for frame in (self.main, self.other) for value in frame["simulated"])

    @property
    def extrapolated(self) -> bool:
        return any(extrapolated(self.main)) or any(extrapolated(self.other))

    @property
    def hosts(self) -> list[str]:
        """Hosts that trials ran on."""
        return sorted({str(host) for frame in (self.main, self.other) for host in frame["host"]})

    @property
    def counts(self) -> dict[str, int]:
        return {str(name): int(number) for name, number in self.main["status"].value_counts().items()}

    @property
    def not_begun(self) -> int:
        begun = {claim.item_id for claim in self.log.started.values()}
        return sum(item.item_id not in begun for item in self.sweep.plan.items)


def write_summary(
    sweep_dir: Path,
    *,
    hosts: Mapping[str, Mapping[str, Any]] | None = None,
    color: bool = False,
    width: int | None = None,
    page_within_s: float | None = None,
) -> Summary:
    """Summarise a sweep folder: write both files and return the table for the terminal.

    hosts: per host what `treeline.outcomes.host_outcome` returns, where the run that asks knows it.
    page_within_s: draw `report.html`, too, within so many seconds. A report that cannot be drawn, or not in
    time, is a remark and no failure. None draws none.
    Raises StoreError: the folder holds no sweep, cannot be read, or cannot be written.
    """
    facts = _gather(sweep_dir, hosts)
    jsonl.write_atomic(sweep_dir / CSV, _csv(facts.main))
    if facts.other.empty:
        (sweep_dir / OTHER_CSV).unlink(missing_ok=True)
    else:
        jsonl.write_atomic(sweep_dir / OTHER_CSV, _csv(facts.other))
    jsonl.write_atomic(sweep_dir / MARKDOWN, _markdown(facts).encode("utf-8", "replace"))
    page, remark = draw_page(sweep_dir, page_within_s) if page_within_s is not None else (None, "")
    table = _terminal(facts, color=color, width=width)
    return Summary(
        table="\n".join([table, *([str(page)] if page else []), *([remark] if remark else [])]),
        csv=sweep_dir / CSV,
        markdown=sweep_dir / MARKDOWN,
        trials=len(facts.main),
        counts=facts.counts,
        page=page,
        remark=remark,
    )


def _gather(sweep_dir: Path, hosts: Mapping[str, Mapping[str, Any]] | None) -> _Facts:
    store = SweepStore(sweep_dir)
    sweep, log = store.read_sweep(), store.read_trials()
    frame = trials_frame(log, sweep)
    main = (frame["purpose"] == "explore") & frame["latest"]
    try:
        events = read_events(sweep_dir / EVENTS)
    except StoreError:
        events = []  # the log of failures decides nothing; a damaged one must not cost the summary
    return _Facts(sweep, log, sweep_dir, frame[main], frame[~main], events, _restored(sweep, hosts))


def _csv(trials: pd.DataFrame) -> bytes:
    return csv_table(trials).to_csv(index=False, lineterminator="\n").encode()


def _headline(facts: _Facts) -> str:
    counts = ", ".join(f"{number} {status}" for status, number in facts.counts.items()) or "none yet"
    if facts.sweep.plan.frontier is not None:
        trials = f"{len(facts.main)} trial{'' if len(facts.main) == 1 else 's'} of the search: {counts}"
        return "; ".join([trials, *known_lines(facts.sweep, facts.log)])
    words = f"{len(facts.main)} of {len(facts.sweep.plan.items)} items: {counts}"
    if facts.not_begun:
        words += f"; {facts.not_begun} not begun"
    return words


def _terminal(facts: _Facts, *, color: bool, width: int | None) -> str:
    several = len(facts.hosts) > 1
    lines = []
    for title, trials, other in ((_title(facts), facts.main, False), (OTHER_TITLE, facts.other, True)):
        if other and trials.empty:
            continue
        header, rows = cells(trials, purpose=other, host=several)
        lines += [terminal_table(title, header, rows, color=color, width=width, spare="trial"), ""]
    lines += [_headline(facts), *_failures(facts)]
    if facts.extrapolated:
        lines.append(EXTRAPOLATED_NOTE)
    if facts.simulated:
        lines.append(SIMULATED)
    lines += [f"evidence of a trial: {facts.folder}/evidence/<sweep>-<trial>/", f"{facts.folder / MARKDOWN}"]
    return "\n".join(lines)


def _title(facts: _Facts) -> str:
    title = f"sweep {facts.sweep.sweep_id}" + (f" on {facts.hosts[0]}" if len(facts.hosts) == 1 else "")
    return title + (" (simulated timing)" if facts.simulated else "")


def _failures(facts: _Facts) -> list[str]:
    lines = []
    for row in facts.main.to_dict("records"):
        if row["status"] in ("ok", "running"):
            continue
        number = str(row["trial_id"]).rpartition("-")[2]
        said = f": {row['first_error']}" if isinstance(row["first_error"], str) else ""
        lines.append("  " + clean(f"trial {number}, {row['label']}: {_verdict(row)}{said}", 200))
        if isinstance(row["advice"], str) and row["advice"]:
            lines.append("      " + clean(f"try: {row['advice']}", 200))
    return lines


def _verdict(row: Mapping[Any, Any]) -> str:
    words = str(row["status"])
    if isinstance(row["class"], str) and row["class"] != row["status"]:
        words += f" {row['class']}"
    if isinstance(row["phase"], str):
        words += f" in {row['phase']}"
    places = [
        f"{name} {row[column]}"
        for name, column in (("rank", "rank"), ("captured bs", "captured_bs"))
        if not pd.isna(row[column])
    ]
    return f"{words} ({', '.join(places)})" if places else words


def _markdown(facts: _Facts) -> str:
    sweep = facts.sweep
    parts = [f"# Sweep {sweep.sweep_id}", _headline(facts) + "."]
    if facts.simulated:
        parts.append(f"**{SIMULATED}.**")
    if facts.extrapolated:
        parts.append(escape_markdown(EXTRAPOLATED_NOTE) + ".")
    parts += ["## What was measured with", _provenance(sweep)]
    parts += ["## Trials", markdown_table(*cells(facts.main))]
    if not facts.other.empty:
        parts += [f"## {OTHER_TITLE}", markdown_table(*cells(facts.other, purpose=True))]
    failed = pd.concat([facts.main, facts.other])
    failed = failed[~failed["status"].isin(["ok", "running"])]
    if not failed.empty:
        parts += ["## What failed, and what to try", *map(_failure, failed.to_dict("records"))]
    apart = [event for event in facts.events if event.trial_id is None and event.kind != "retry"]
    if apart:
        parts += ["## Failures outside trials", "\n".join(_event(event) for event in apart)]
    parts += ["## The services that were there before", _restore_text(facts)]
    return "\n\n".join(parts) + "\n"


def _provenance(sweep: Sweep) -> str:
    about = [("created", sweep.created_at), ("dialect", sweep.dialect), ("plan", sweep.plan.kind)]
    about.append(("state", f"finished {sweep.finished_at}" if sweep.finished_at else "unfinished"))
    lines = [f"- {name}: {escape_markdown(str(value))}" for name, value in about]
    header = ["host", "hardware class", "engine", "build", "model", "driver"]
    rows = [
        [host, entry.hardware_class]
        + [value or "" for value in (entry.engine, entry.engine_build, entry.model, entry.driver)]
        for host, entry in sweep.provenance.items()
    ]
    return "\n".join(lines) + ("\n\n" + markdown_table(header, rows) if rows else "")


def _failure(row: Mapping[Any, Any]) -> str:
    lines = [f"### {row['label']} (trial {row['trial_id']}): {escape_markdown(_verdict(row))}", ""]
    if isinstance(row["first_error"], str):
        # An indented block: nothing in it is markup.
        lines += ["    " + " ".join(clean(row["first_error"]).split()), ""]
    if isinstance(row["advice"], str) and row["advice"]:
        lines += [f"Try: {escape_markdown(row['advice'])}", ""]
    if isinstance(row["evidence"], str):
        lines.append(f"Evidence: `{row['evidence']}/`")
    else:
        lines.append("Evidence: none was kept")
    return "\n".join(lines)


def _event(event: FailureEvent) -> str:
    return f"- {escape_markdown(render(event).removeprefix('treeline: '))}"


def _restored(sweep: Sweep, hosts: Mapping[str, Mapping[str, Any]] | None) -> dict[str, str]:
    """What is known about each host: by the run that asks, else by how the last run closed."""
    if hosts is not None:
        return {host: _told(state) for host, state in host_states(hosts).items()}
    run = sweep.runs[-1] if sweep.runs else None
    if run is None or run.ended_at is None:
        return dict.fromkeys(sweep.provenance, "not known: the last run has not closed")
    if run.hosts is None:
        ended = f"not on record for each host; the last run ended with: {run.reason or 'no reason given'}"
        return dict.fromkeys(sweep.provenance, ended)
    return {host: _told(state) for host, state in run.hosts.items()}


def _told(state: HostState) -> str:
    why = state.reason or "no reason given"
    if state.owed:
        words = f"NOT restored: {why}"
    else:
        words = "restored" if state.touched else f"not taken, so nothing had to be restored: {why}"
    return f"{words}; it left the sweep early: {state.broke_off}" if state.broke_off else words


def _restore_text(facts: _Facts) -> str:
    lines = [f"- {escape_markdown(host)}: {escape_markdown(text)}" for host, text in facts.restored.items()]
    lines = lines or ["- no host was reached"]
    how = "`ansible-playbook restore.yml` puts back what is still owed and changes nothing elsewhere."
    return "\n".join([*lines, "", how])
