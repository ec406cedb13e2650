"""`treeline signatures`: look at the failure classes, and check a file of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from treeline.cli.classify import CATALOGUE, describe, explained

if TYPE_CHECKING:
    from treeline.signatures.catalogue import Catalogue, Signature


@click.group("signatures", short_help="Look at the failure classes, or check your own.")
def command() -> None:
    """Look at the failure classes that logs are searched for, or check a file of your own.

    A file of your own is YAML: `schema_version: 1` and a list `classes`; `treeline signatures show ID --yaml`
    prints one to begin with. Give it with --catalogue, or name it in TREELINE_CATALOGUE, and nothing in the
    repository has to change.
    """


@command.command("list")
@CATALOGUE
def list_classes(catalogues: Sequence[Path]) -> None:
    """List every class: its id, what it decides, how strong it is, where it can occur and of what it is."""
    rows = [("CLASS", "KIND", "TIER", "PHASES", "LAYER")]
    rows += [
        (one.id, one.kind, one.tier, _phases(one, ","), one.layer)
        for one in _catalogue(catalogues).signatures
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        click.echo("  ".join([*padded, row[4]]))


@command.command("show")
@click.argument("class_id", metavar="ID")
@click.option("--yaml", "as_yaml", is_flag=True, help="Print it as a catalogue file of its own.")
@CATALOGUE
def show(class_id: str, as_yaml: bool, catalogues: Sequence[Path]) -> None:
    """Show all about the class ID."""
    loaded = _catalogue(catalogues)
    try:
        signature = loaded.by_id(class_id)
    except KeyError:
        from rapidfuzz import process

        near = process.extractOne(class_id, [one.id for one in loaded.signatures], score_cutoff=60)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise click.ClickException(
            f"there is no class '{class_id}'{hint} `treeline signatures list` lists them"
        ) from None
    click.echo(_as_yaml(signature) if as_yaml else "\n".join(_described(signature)))


@command.command("test")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--on", "log", type=click.Path(path_type=Path), help="A log to try the classes on.")
def test(file: Path, log: Path | None) -> None:
    """Check your own classes in FILE, and say what they add and what they replace.

    A broken file gives the lines and the reasons, and exit code 1. Doubtful expressions (slow ones, or such
    that match text which is never evidence) are warned of.
    """
    from treeline.signatures.catalogue import load_catalogue
    from treeline.signatures.userfile import check

    builtin = load_catalogue([])
    known = {signature.id for signature in builtin.signatures}
    try:
        checked = check(file, builtin.never_evidence)
    except OSError as error:
        raise click.ClickException(f"{error.filename or file}: {error.strerror or error}") from error
    for problem in checked.problems:
        click.echo(f"{file}:{problem.line}: {problem.text}", err=True)
    if checked.problems:
        raise SystemExit(1)
    for signature in checked.signatures:
        does = "replaces the built-in class" if signature.id in known else "adds the class"
        line = checked.lines[signature.id]
        click.echo(f"{file}:{line}: {does} {signature.id} (tier {signature.tier}, kind {signature.kind})")
    if not checked.signatures:
        click.echo(f"{file}: no classes in it")
    for warning in checked.warnings:
        click.echo(f"{file}:{warning.line}: warning: {warning.text}", err=True)
    if log is not None:
        _try_on(file, log, {signature.id for signature in checked.signatures})


def _try_on(file: Path, log: Path, own: set[str]) -> None:
    from treeline.signatures import classify_journal

    try:
        verdict = classify_journal(log, alive=None, catalogue=[file], explain=True)
    except OSError as error:
        raise click.ClickException(f"{error.filename or log}: {error.strerror or error}") from error
    click.echo(f"\n{log}:")
    click.echo("\n".join([*describe(verdict), *explained(verdict)]))
    if not any(remark.class_ in own for remark in verdict.remarks):
        click.echo("\nNo line of this log holds a string of your classes.")


def _catalogue(catalogues: Sequence[Path]) -> Catalogue:
    from treeline.signatures.catalogue import CatalogueError, load_catalogue

    try:
        return load_catalogue(list(catalogues))
    except CatalogueError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}") from error


def _phases(signature: Signature, between: str) -> str:
    from treeline_target.markers import PHASES

    return "any" if set(signature.phases) in (set(), set(PHASES)) else between.join(signature.phases)


def _described(signature: Signature) -> list[str]:
    known: list[tuple[str, Sequence[str]]] = [
        ("class", [signature.id]),
        ("layer", [signature.layer]),
        ("tier", [signature.tier]),
        ("kind", [signature.kind]),
        ("phases", [_phases(signature, ", ")]),
        (
            "lines of",
            ["the service alone" if signature.source == "service" else "service, systemd and kernel"],
        ),
        ("strings", signature.literals),
        ("and one of", signature.regex),
        ("but none of", signature.unless),
        ("try", [signature.advice]),
        ("reports", signature.references),
        ("examples", signature.examples),
        ("not these", signature.near_misses),
    ]
    lines = []
    for name, values in known:
        for number, value in enumerate(value for value in values if value):
            lines.append(f"{'' if number else name + ':':13}{value}")
    return lines


def _as_yaml(signature: Signature) -> str:
    import msgspec
    import yaml

    fields = {name: value for name, value in msgspec.to_builtins(signature).items() if value}
    text: str = yaml.safe_dump({"schema_version": 1, "classes": [fields]}, sort_keys=False, width=110)
    return text.rstrip("\n")
