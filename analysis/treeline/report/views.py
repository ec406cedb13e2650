"""What notebooks show: one call a cell. On empty results each says what there is none of."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from treeline import plots
from treeline.frames import summaries
from treeline.frames.course import audits
from treeline.frames.requests import al_within_lives, request_files, request_summary
from treeline.frames.results import Results
from treeline.laws.findings import Findings
from treeline.laws.findings import findings as all_findings
from treeline.plain import clean
from treeline.plots import Drawn
from treeline.report import figures
from treeline.report.htmltable import html_table


@dataclass(frozen=True)
class Table:
    """A frame that shows itself in a notebook: escaped, with every row up to a limit, or a sentence."""

    frame: pd.DataFrame
    nothing: str

    def _repr_html_(self) -> str:
        return f"<p>{self.nothing}</p>" if self.frame.empty else html_table(self.frame)

    def __repr__(self) -> str:
        if self.frame.empty:
            return self.nothing
        cleaned = self.frame.map(lambda value: clean(value) if isinstance(value, str) else value)
        return cleaned.to_string(index=False)


@dataclass(frozen=True)
class Text:
    """Sentences that show themselves in a notebook."""

    text: str

    def _repr_markdown_(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text


def overview(results: Results) -> Text:
    """What there is to look at, in a sentence."""
    return Text(results.sentence)


def frontier(results: Results, text: str = "AL") -> Drawn:
    """The frontier map; ``text`` is what stands in a cell that works, AL or tok_s."""
    return plots.frontier_map(results.cells, text=text)


def cells(results: Results) -> Table:
    """Every cell with what is known of it and why."""
    shown = [
        "slice",
        "budget",
        "maxreq",
        "rows",
        "state",
        "class",
        "phase",
        "trials",
        "AL",
        "tok_s",
        "reason",
    ]
    return Table(results.cells[shown], "No cell was planned yet.")


def audit(results: Results) -> Text:
    """What audits say about implied cells."""
    return Text(audits(results.logs).text)


def search_course(results: Results) -> Drawn:
    """Restarts spent against cells decided."""
    return figures.search_course(results)


def acceptance(results: Results, concurrency: int | None = None) -> Drawn:
    """AL and tok/s against budget at one concurrency."""
    return figures.acceptance(results, concurrency)


def acceptance_table(results: Results) -> Table:
    """AL and tok/s of every cell and client key, with intervals over service lives."""
    shown = [
        "label", "concurrency", "context", "n", "al", "al_low", "al_high", "tok_s", "tok_s_low", "tok_s_high",
    ]  # fmt: skip
    return Table(summaries.over_lives(_lives(results))[shown], "No trial ended ok yet.")


def acceptance_within_lives(results: Results) -> Table:
    """AL of every life and client key, with a bootstrap interval over its requests."""
    found = al_within_lives(request_files(results.folders)).drop(columns="phase")
    labels = results.trials[["trial_id", "label"]]
    shown = ["trial_id", "label", "concurrency", "context", "requests", "al", "al_low", "al_high"]
    return Table(found.merge(labels, on="trial_id", how="left")[shown], "No request was sent yet.")


def over_concurrency(results: Results) -> Table:
    """Whether AL is flat over concurrency in each life; where it is not, that speaks for a bug."""
    return Table(
        summaries.al_over_concurrency(_lives(results)), "No life was measured at two concurrencies or more."
    )


def per_position(results: Results) -> Drawn:
    """How often each draft position is accepted."""
    return plots.per_position(summaries.per_position(_points(results)))


def step_time(results: Results) -> Drawn:
    """What a verify step costs and yields."""
    return plots.step_time(_lives(results))


def pareto(results: Results) -> Drawn:
    """Throughput per GPU against rate per user."""
    return plots.pareto(_points(results), figures.failed_trials(results))


def goodput(results: Results) -> Drawn:
    """Goodput against concurrency."""
    return plots.goodput_vs_concurrency(summaries.goodput(_points(results)))


def anchor_drift(results: Results) -> Drawn:
    """Whether the host changed while it measured."""
    return plots.anchor_drift(summaries.anchors(_points(results)))


def time_budget(results: Results) -> Drawn:
    """Where the time went."""
    return plots.time_budget(summaries.time_budget(results.trials))


def requests(results: Results) -> Table:
    """Latencies of single requests by trial and client key, measured phases only."""
    found = request_summary(request_files(results.folders))
    return Table(found[found["phase"] == "point"], "No request was sent yet.")


def failure_classes(results: Results) -> Table:
    """What trials died of, the most frequent first."""
    return Table(summaries.failures(results.trials), "No trial failed.")


def failed_trials(results: Results) -> Table:
    """Every trial that did not end well, with its first error and what to try."""
    shown = [
        "trial_id", "label", "status", "class", "phase", "step", "rank", "captured_bs",
        "first_error", "advice",
    ]  # fmt: skip
    return Table(figures.failed_trials(results)[shown], "No trial failed.")


def failed_tasks(results: Results) -> Table:
    """Ansible tasks that failed outside and inside trials."""
    return Table(results.events, "No Ansible task failed or was retried.")


def findings(results: Results) -> list[Findings]:
    """The findings for each hardware class and build."""
    return all_findings(results)


def answers(found: list[Findings]) -> Text:
    """What failures depend on, in sentences."""
    if not found:
        return Text("Nothing was measured, so there is nothing to find.")
    return Text("\n\n".join(f"**{one.title}**: {one.answer}" for one in found))


def laws(found: list[Findings]) -> Table:
    """Every law with its verdict, what it gets wrong, and the pair of cells that refutes it."""
    return Table(_all(found, "laws_table"), "No cell was measured, so no law can be judged.")


def classes(found: list[Findings]) -> Table:
    """Every failure class for itself, with the bracket of its limit."""
    return Table(_all(found, "classes_table"), "No cell failed, so there is no class to look at.")


def bought(found: list[Findings]) -> Table:
    """What each larger budget bought."""
    return Table(
        _all(found, "bought"), "No line has two budgets that work, so there is no step to a larger one."
    )


def deploy(found: list[Findings]) -> Table:
    """What to deploy, by client key."""
    return Table(_all(found, "deploy"), "No configuration worked, so there is none to deploy.")


def ahead(found: list[Findings]) -> Text:
    """What to measure next."""
    lines = [f"- {proposal.text}" for one in found for proposal in one.ahead]
    return Text("\n".join(lines) or "Nothing that was measured asks for more; a larger plan would.")


def _all(found: list[Findings], name: str) -> pd.DataFrame:
    frames = []
    for one in found:
        frame: pd.DataFrame = getattr(one, name)
        if frame.empty:
            continue
        several = len(found) > 1 and "engine_build" not in frame
        frames.append(frame.assign(measured_with=one.title) if several else frame)
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _points(results: Results) -> pd.DataFrame:
    return summaries.points(results.measurements, results.trials)


def _lives(results: Results) -> pd.DataFrame:
    return summaries.lives(_points(results))
