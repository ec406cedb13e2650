"""`treeline plan`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from treeline.cli.common import RESULTS, find_sweep

if TYPE_CHECKING:
    from treeline.request import Outcome, Rates


@click.command("plan", short_help="Forecast a plan without hosts, or tell the story of a sweep.")
@click.argument("variables", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("-e", "extra", multiple=True, metavar="NAME=VALUE", help="The same, as sweep.yml takes it.")
@click.option(
    "--hosts", type=click.IntRange(1, 10_000), default=1, show_default=True, help="Hosts that share it."
)
@click.option("--rows-prior", type=click.IntRange(1), help="The inventory's treeline_rows_prior.")
@click.option("--load-s", type=click.FloatRange(0), help="Seconds until the engine serves.")
@click.option("--measure-s", type=click.FloatRange(0), help="Seconds of load in a trial.")
@click.option(
    "--path", "show_path", is_flag=True, help="List the steps, as the rows prior expects them to end."
)
@click.option("--json", "as_json", is_flag=True, help="Print the plan and its forecast as JSON.")
@click.option(
    "--explain", metavar="SWEEP", is_flag=False, flag_value="", help="Tell a sweep's story instead."
)
@RESULTS
def command(
    variables: tuple[str, ...],
    extra: tuple[str, ...],
    hosts: int,
    rows_prior: int | None,
    load_s: float | None,
    measure_s: float | None,
    show_path: bool,
    as_json: bool,
    explain: str | None,
    results: Path,
) -> None:
    """Say what a sweep would run, how many restarts and how long it would take; no host is needed.

    The variables are those of sweep.yml:

    \b
      treeline plan budget=8,16 maxreq=64,128
      treeline plan plan=frontier topk=4,8 --hosts 2
      treeline plan plan=frontier stages=frontier --path

    Without --load-s and --measure-s the times of the newest sweeps in --results are taken, else estimates.
    With --explain SWEEP (a folder, an id or its beginning; nothing for the newest) every step of that sweep
    is told with its reason: what was measured, what was only concluded from it, and what contradicted it.
    """
    if explain is not None:
        _explain(explain, results)
        return
    outcome = _understood([*variables, *extra], hosts, rows_prior, _rates(results, load_s, measure_s))
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(_as_json(outcome)), indent=1))
        return
    lines = [*outcome.forecast, *(f"Note: {note}" for note in outcome.notes)]
    if show_path:
        from treeline.plan.rehearse import rehearsal_lines

        lines += rehearsal_lines(outcome.plan)
    click.echo("\n".join(lines))


def _explain(sweep: str, results: Path) -> None:
    from treeline.explain import explain
    from treeline.store import StoreError

    try:
        click.echo("\n".join(explain(find_sweep(sweep or None, results))))
    except StoreError as error:
        raise click.ClickException(str(error)) from error


def _understood(words: list[str], hosts: int, rows_prior: int | None, rates: Rates) -> Outcome:
    from treeline.request import DEFAULT_ROWS_PRIOR, RequestError, Surroundings, understand
    from treeline.request.public import PUBLIC, nearest

    given: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{word!r} is not NAME=VALUE, such as budget=8,16")
        given[name] = value
    around = Surroundings(
        extra_vars_names=list(given),
        rows_prior=rows_prior or DEFAULT_ROWS_PRIOR,
        group_hosts=[f"host{number + 1}" for number in range(hosts)] if hosts > 1 else None,
        folders=[Path.cwd(), Path.cwd() / "playbooks" / "plans"],
        rates=rates,
    )
    # A name that looks like a public one is told once, with the suggestion.
    variables = {name: value for name, value in given.items() if name in PUBLIC or not nearest(name, PUBLIC)}
    try:
        return understand(variables, around)
    except RequestError as error:
        raise click.ClickException(str(error)) from error


def _rates(results: Path, load_s: float | None, measure_s: float | None) -> Rates:
    """The times that were given, else those of earlier trials, else estimates."""
    import msgspec

    from treeline.history_rates import rates_of_results
    from treeline.request import Rates

    rates = (rates_of_results(results) if load_s is None and measure_s is None else None) or Rates()
    given = {"load_s": load_s, "measure_s": measure_s}
    return msgspec.structs.replace(
        rates, **{name: value for name, value in given.items() if value is not None}
    )


def _as_json(outcome: Outcome) -> dict[str, Any]:
    from dataclasses import asdict

    from treeline.plan import expected

    coming = expected(outcome.plan)
    return outcome.to_dict() | {
        "restarts": {**asdict(coming), "total": coming.total},
        "seconds": coming.total * outcome.forecast_trial_s,
    }
