"""The report: one HTML file that needs nothing else, no network and no other file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd

from treeline import jsonl
from treeline.frames import summaries
from treeline.frames.course import AuditCount, audits
from treeline.frames.results import Results, read
from treeline.laws.findings import Findings, findings
from treeline.plain import clean
from treeline.records import utc_now
from treeline.report.excerpt import excerpt
from treeline.report.figures import figures
from treeline.report.htmltable import html_table

MAX_FAILURES = 60

_TRIALS = {
    "sweep_id": "sweep", "trial": "trial", "host": "host", "purpose": "purpose", "budget": "budget",
    "topk": "topk", "maxreq": "maxreq", "graphs": "graphs", "rows": "rows", "status": "status",
    "class": "class", "phase": "phase",
    "AL": "AL", "total_s": "seconds",
}  # fmt: skip
_POINTS = {
    "label": "configuration", "concurrency": "concurrency", "context": "context", "repeat": "repeat",
    "status": "trial", "al": "AL", "output_tok_s": "tok/s", "tok_s_user": "tok/s/user",
    "ttft_p50_ms": "TTFT p50 ms",
    "tpot_p50_ms": "TPOT p50 ms", "tpot_p99_ms": "TPOT p99 ms", "requests": "requests", "failed": "failed",
}  # fmt: skip
_BOUGHT = {
    "slice": "slice", "concurrency": "concurrency", "smaller": "from budget", "larger": "to budget",
    "al_change": "AL", "acceptance": "AL, in words", "tok_s_change": "tok/s", "throughput": "tok/s, in words",
}  # fmt: skip
_DEPLOY = {
    "concurrency": "concurrency", "context": "context", "label": "configuration", "tok_s": "tok/s",
    "al": "AL", "n": "lives", "verdict": "verdict",
}  # fmt: skip


@dataclass(frozen=True)
class _Failure:
    label: str
    trial_id: str
    verdict: str
    first_error: str
    advice: str
    lines: list[str]


def write_page(sweeps: Iterable[Path], target: Path) -> Path:
    """Write the report on some sweeps. Raises StoreError: they cannot be read, or the file not be written."""
    jsonl.write_atomic(target, page(read(*sweeps)).encode("utf-8", "replace"))
    return target


def page(results: Results) -> str:
    """Return the report as HTML. Whatever comes from a log is escaped and stays text."""
    from jinja2 import Environment, StrictUndefined

    source = files("treeline.report").joinpath("page.html.j2").read_text(encoding="utf-8")
    template = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True).from_string(source)
    points = summaries.points(results.measurements, results.trials)
    trials = results.trials.assign(
        trial=[trial_id.rpartition("-")[2] for trial_id in results.trials["trial_id"]],
        graphs=results.trials["graphs"].map({True: "on", False: "off"}),
    )
    return template.render(
        title=_title(results),
        made=utc_now(),
        sentence=results.sentence,
        simulated=results.simulated,
        counts=results.trials["status"].value_counts().to_dict(),
        states={
            str(state).replace("_", " "): n for state, n in results.cells["state"].value_counts().items()
        },
        audit=_audit(results),
        findings=[_found(one) for one in findings(results)],
        plots=[
            (drawn.title, html_safe(drawn.inline()), drawn.alt, drawn.empty) for drawn in figures(results)
        ],
        trials=html_safe(html_table(_varying(trials), _TRIALS, max_rows=2000)),
        points=html_safe(html_table(points, _POINTS)),
        classes=html_safe(html_table(summaries.failures(results.trials))),
        failures=_failures(results),
        more_failures=max(0, len(_failed(results.trials)) - MAX_FAILURES),
        events=html_safe(html_table(results.events[results.events["kind"] != "retry"])),
        provenance=html_safe(html_table(_provenance(results))),
    )


def html_safe(text: str) -> Any:
    """Mark a text as HTML that is escaped already."""
    from markupsafe import Markup

    return Markup(text)  # noqa: S704  (made by html_table or by matplotlib, which escape what they show)


def _title(results: Results) -> str:
    names = [folder.name for folder in results.folders]
    if len(names) == 1:
        return f"Sweep {names[0]}"
    return f"{len(names)} sweeps" if names else "No sweep"


def _varying(trials: pd.DataFrame) -> pd.DataFrame:
    """Without the columns that say the same in every row of a single sweep and host."""
    alike = [name for name in ("sweep_id", "host", "purpose") if trials[name].nunique() < 2]
    return trials.drop(columns=alike)


def _audit(results: Results) -> str:
    found = audits(results.logs)
    return found.text if found != AuditCount() else ""


def _found(one: Findings) -> dict[str, Any]:
    return {
        "title": one.title,
        "answer": one.answer,
        "laws": html_safe(html_table(one.laws_table)),
        "classes": html_safe(html_table(one.classes_table)),
        "bought": html_safe(html_table(_percent(one.bought), _BOUGHT)),
        "deploy": html_safe(html_table(one.deploy, _DEPLOY)),
        "ahead": [(proposal.what, proposal.why, proposal.options) for proposal in one.ahead],
    }


def _percent(bought: pd.DataFrame) -> pd.DataFrame:
    shown = bought.copy()
    for name in ("al_change", "tok_s_change"):
        shown[name] = ["" if pd.isna(value) else f"{value:+.1%}" for value in bought[name]]
    return shown


def _failed(trials: pd.DataFrame) -> pd.DataFrame:
    return trials[~trials["status"].isin(["ok", "running", "interrupted"])]


def _failures(results: Results) -> list[_Failure]:
    folders = {sweep.sweep_id: folder for sweep, folder in zip(results.sweeps, results.folders, strict=True)}
    found = []
    for row in _failed(results.trials).head(MAX_FAILURES).to_dict("records"):
        error = clean(row["first_error"]) if isinstance(row["first_error"], str) else ""
        folder = folders.get(str(row["sweep_id"]))
        kept = isinstance(row["evidence"], str) and folder is not None
        words = [str(row["status"])]
        if isinstance(row["class"], str) and row["class"] != row["status"]:
            words.append(row["class"])
        if isinstance(row["phase"], str):
            words.append(f"in {row['phase']}")
        found.append(
            _Failure(
                label=str(row["label"]),
                trial_id=str(row["trial_id"]),
                verdict=" ".join(words),
                first_error=error,
                advice=clean(row["advice"]) if isinstance(row["advice"], str) else "",
                lines=excerpt(folder / str(row["evidence"]), error) if kept and folder else [],
            )
        )
    return found


def _provenance(results: Results) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "sweep": sweep.sweep_id,
                "opened": sweep.created_at,
                "state": f"finished {sweep.finished_at}" if sweep.finished_at else "unfinished",
                "plan": sweep.plan.kind,
                "dialect": sweep.dialect,
                "host": host,
                "hardware class": about.hardware_class,
                "engine": about.engine,
                "build": about.engine_build,
                "model": about.model,
                "driver": about.driver,
            }
            for sweep in results.sweeps
            for host, about in sweep.provenance.items()
        ]
    )
