"""`treeline frontier`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from treeline.plan.simulate import Simulated
    from treeline.plan.truth import Truth


@click.command("frontier", short_help="Try the search for the frontier against a table of the truth.")
@click.option(
    "--truth",
    "table",
    type=click.Path(path_type=Path, allow_dash=True),
    required=True,
    metavar="FILE",
    help="CSV with the columns budget, maxreq, status; optional topk, graphs, p_fail.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of audits and of failures by chance.")
@click.option(
    "--hosts", type=click.IntRange(1, 64), default=1, show_default=True, help="Hosts that share it."
)
@click.option("--audit", type=click.FloatRange(0, 1), default=0.1, show_default=True, help="Share to audit.")
@click.option("--confirm/--no-confirm", default=True, help="Repeat the corners of the bad cells once.")
@click.option("--rows-prior", type=click.IntRange(1), default=1200, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print restarts and verdicts as JSON.")
def command(
    table: Path, seed: int, hosts: int, audit: float, confirm: bool, rows_prior: int, as_json: bool
) -> None:
    """Play the search of plan=frontier against a table that says which cells work; nothing is run.

    It tells how many restarts the search would take, what it would say of each cell, measured or implied,
    and how often that would be wrong. A status is one of the records' (ok, crash, garbled, timeout, ...), or
    good, bad or transient. p_fail is the share of a cell's trials that fail: of such a cell every verdict may
    be right, so none counts as wrong.
    """
    from treeline.plan.simulate import simulate
    from treeline.plan.truth import TruthError, plan_for, read

    try:
        with click.open_file(str(table), encoding="utf-8-sig") as file:
            truth = read(file.read())
    except TruthError as error:
        raise click.ClickException(f"{table}: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{table}: {getattr(error, 'strerror', None) or error}") from error
    plan = plan_for(truth, audit_share=audit, confirm=confirm, rows_prior=rows_prior, salt=str(seed))
    done = simulate(plan, truth, seed=seed, hosts=hosts)
    if as_json:
        import json

        click.echo(json.dumps(_as_json(done, truth)))
    else:
        click.echo("\n".join(_for_people(done, truth, hosts)))


def _as_json(done: Simulated, truth: Truth) -> dict[str, Any]:
    cells = []
    for one in done.believed:
        cell: dict[str, Any] = {"budget": one.key.budget, "maxreq": one.key.maxreq}
        cell |= {"topk": one.key.topk} if truth.with_topk else {}
        cell |= {"graphs": one.key.graphs} if truth.with_graphs else {}
        cells.append(cell | {"verdict": one.verdict, "basis": "measured" if one.measured else "implied"})
    return {
        "restarts": done.restarts,
        "confirmations": done.count("confirm"),
        "audits": done.count("audit"),
        "cells": cells,
        "wrong": done.wrong,
        "contradictions": len(done.contradictions),
    }


def _for_people(done: Simulated, truth: Truth, hosts: int) -> list[str]:
    from treeline.plan.story import LEGEND, SYMBOLS, belief_lines, map_lines, odds_line

    found = {one.cell.cell: one.cell for one in done.believed}
    walked = done.restarts - done.count("confirm") - done.count("audit")
    lines = [
        f"{done.restarts} restarts for {len(truth.cells)} cells: {walked} along the border, "
        f"{done.count('confirm')} confirmations, {done.count('audit')} audits; wrong cells: {done.wrong}"
    ]
    if hosts > 1:
        lines.append(f"{hosts} hosts take the time of {done.time:g} trials")
    for number, (item, past) in enumerate(done.trials, start=1):
        lines.append(f"{number:>3}. {item.key.label}: {past.effect}  ({item.purpose}: {item.reason})")
    for sheet in done.sheets:
        lines += [f"slice {sheet.slice.label}", *map_lines(sheet, found)]
    lines += [LEGEND, *belief_lines(done.sheets)]
    lines += [
        f"{one.key.short_label}: {SYMBOLS[one.cell.state]}, {odds_line(one.cell)}"
        for one in done.believed
        if one.measured
    ]
    return lines
