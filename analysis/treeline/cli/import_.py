"""`treeline import`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("import", short_help="Read measurements of other tools, marked foreign.")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--format",
    "kind",
    type=click.Choice(["sglang", "vllm", "inferencex"]),
    help="Whose results they are. Default: told from their content.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="File to write: .jsonl, .csv or .parquet.",
)
def command(paths: tuple[Path, ...], kind: str | None, output: Path) -> None:
    """Read sglang bench_serving files, folders of vLLM sweeps and InferenceX rows into rows with our names.

    Every row says `foreign` and its source. Failed runs are rows, too. Foreign rows never enter a sweep: they
    are for looking at beside one, since nobody knows what else differed.

    \b
      treeline import bench.jsonl --output foreign.jsonl
      treeline import results/my-vllm-sweep other.json --output foreign.parquet
    """
    from treeline.exchange import files
    from treeline.exchange.row import ExchangeError, to_lines

    try:
        rows = files.read(paths, kind)  # type: ignore[arg-type]
        if output.suffix == ".jsonl":
            output.write_bytes(to_lines(rows))
        else:
            files.write_table(files.frame(rows), output)
    except ExchangeError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{output} cannot be written: {error.strerror or error}") from error
    failed = sum(row.status == "failed" for row in rows)
    click.echo(
        f"{output}: {len(rows)} foreign rows" + (f", {failed} of them of failed runs" if failed else "")
    )
