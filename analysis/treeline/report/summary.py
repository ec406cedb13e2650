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
from treeline.plain import clean
from treeline.records import Sweep
from treeline.report.frame import trials_frame
from treeline.report.table import cells, csv_table, escape_markdown, markdown_table, terminal_table
from treeline.store import StoreError, SweepStore, TrialLog

CSV = "summary.csv"
OTHER_CSV = "summary-other.csv"
MARKDOWN = "summary.md"
SIMULATED = "engine=reference, simulated timing: tok/s says nothing about any GPU"


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


@dataclass(frozen=True)
class _Facts:
    sweep: Sweep
    log: TrialLog
    folder: Path
    main: pd.DataFrame
    other: pd.DataFrame
    events: list[FailureEvent]
    restored: dict[str, str]

    @property
    def simulated(self) -> bool:
        return any(bool(value) for frame in (self.main, self.other) for value in frame["simulated"])

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
) -> Summary:
    """Summarise a sweep folder: write both files and return the table for the terminal.

    hosts: per host `restored` (bool) and `reason`, where the run that asks knows them.
    Raises StoreError: the folder holds no sweep, cannot be read, or cannot be written.
    """
    facts = _gather(sweep_dir, hosts)
    jsonl.write_atomic(sweep_dir / CSV, _csv(facts.main))
    if facts.other.empty:
        (sweep_dir / OTHER_CSV).unlink(missing_ok=True)
    else:
        jsonl.write_atomic(sweep_dir / OTHER_CSV, _csv(facts.other))
    jsonl.write_atomic(sweep_dir / MARKDOWN, _markdown(facts).encode("utf-8", "replace"))
    return Summary(
        table=_terminal(facts, color=color, width=width),
        csv=sweep_dir / CSV,
        markdown=sweep_dir / MARKDOWN,
        trials=len(facts.main),
        counts=facts.counts,
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
    words = f"{len(facts.main)} of {len(facts.sweep.plan.items)} items: {counts}"
    if facts.not_begun:
        words += f"; {facts.not_begun} not begun"
    return words


def _terminal(facts: _Facts, *, color: bool, width: int | None) -> str:
    lines = [terminal_table(_title(facts), *cells(facts.main), color=color, width=width)]
    if not facts.other.empty:
        other = cells(facts.other, purpose=True)
        lines += ["", terminal_table("Repeats and other trials", *other, color=color, width=width)]
    lines += ["", _headline(facts)]
    lines += [f"  {clean(line, 200)}" for line in _failures(facts)]
    if facts.simulated:
        lines.append(SIMULATED)
    lines += [f"evidence of a trial: {facts.folder}/evidence/<sweep>-<trial>/", f"{facts.folder / MARKDOWN}"]
    return "\n".join(lines)


def _title(facts: _Facts) -> str:
    return f"sweep {facts.sweep.sweep_id}" + (" (simulated timing)" if facts.simulated else "")


def _failures(facts: _Facts) -> list[str]:
    lines = []
    for row in facts.main.to_dict("records"):
        if row["status"] in ("ok", "running"):
            continue
        said = f": {row['first_error']}" if isinstance(row["first_error"], str) else ""
        lines.append(f"{_name(row)}: {_verdict(row)}{said}")
        if isinstance(row["advice"], str) and row["advice"]:
            lines.append(f"    try: {row['advice']}")
    return lines


def _name(row: Mapping[Any, Any]) -> str:
    graphs = "on" if row["graphs"] else "off"
    return f"budget {row['budget']} topk {row['topk']} maxreq {row['maxreq']} graphs {graphs}"


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
    if any(value is True for value in facts.main["extrapolated"]):
        parts.append("Trials marked as extrapolated were never observed in the field.")
    parts += ["## What was measured with", _provenance(sweep)]
    parts += ["## Trials", markdown_table(*cells(facts.main))]
    if not facts.other.empty:
        parts += ["## Repeats and other trials", markdown_table(*cells(facts.other, purpose=True))]
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
    lines = [f"### {_name(row)} (trial {row['trial_id']}): {escape_markdown(_verdict(row))}", ""]
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
        return {
            host: "restored"
            if entry.get("restored")
            else f"NOT restored: {entry.get('reason') or 'no reason'}"
            for host, entry in hosts.items()
        }
    run = sweep.runs[-1] if sweep.runs else None
    if run is None or run.ended_at is None:
        return dict.fromkeys(sweep.provenance, "not known: the last run has not closed")
    reasons = (run.reason or "").split("; ")
    return {
        host: next((text for text in reasons if text.startswith(f"{host} is NOT restored")), "restored")
        for host in sweep.provenance
    }


def _restore_text(facts: _Facts) -> str:
    lines = [f"- {escape_markdown(host)}: {escape_markdown(text)}" for host, text in facts.restored.items()]
    lines = lines or ["- no host was reached"]
    how = "`ansible-playbook restore.yml` puts back what is still owed and changes nothing elsewhere."
    return "\n".join([*lines, "", how])
