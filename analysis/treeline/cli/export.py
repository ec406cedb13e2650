"""`treeline export`."""

from __future__ import annotations

from pathlib import Path

import click

from treeline.cli.common import RESULTS, find_sweep


@click.command("export", short_help="Write sweeps as CSV, Parquet or InferenceX-like rows.")
@click.argument("sweeps", metavar="[SWEEP]...", nargs=-1)
@RESULTS
@click.option(
    "--table",
    type=click.Choice(["measurements", "trials", "cells"]),
    default="measurements",
    show_default=True,
    help="What a row is.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="File to write: .csv, .parquet, or .json for InferenceX-like rows of measurements.",
)
@click.option(
    "--set", "settings", metavar="NAME=VALUE", multiple=True, help="A field of every .json row, such as tp=8."
)
def command(
    sweeps: tuple[str, ...], results: Path, table: str, output: Path, settings: tuple[str, ...]
) -> None:
    """Write the trials, measurements or cells of sweeps for other tools. Failed trials are rows, too.

    \b
      treeline export --output points.parquet
      treeline export 20260301 --table trials --output trials.csv
      treeline export --output rows.json --set hw=b300 --set tp=8 --set precision=fp4
    """
    from treeline.exchange import files
    from treeline.exchange.row import ExchangeError
    from treeline.frames.results import read
    from treeline.store import StoreError

    about = _settings(settings)
    folders = [find_sweep(sweep, results) for sweep in sweeps] or [find_sweep(None, results)]
    try:
        found = read(*folders)
        if output.suffix == ".json":
            if table != "measurements":
                raise click.UsageError("InferenceX-like rows are made of measurements; leave --table out")
            rows = files.inferencex_rows(found, about)
            files.write_rows(rows, output)
            number = len(rows)
        else:
            exported = files.table(found, table)  # type: ignore[arg-type]
            files.write_table(exported, output)
            number = len(exported)
    except (StoreError, ExchangeError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{output}: {number} rows")


def _settings(given: tuple[str, ...]) -> dict[str, object]:
    about: dict[str, object] = {}
    for setting in given:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--set {setting}: NAME=VALUE is needed")
        about[name] = int(value) if value.isdigit() else value
    return about
