"""`treeline classify`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from treeline.signatures import LogVerdict

CATALOGUE = click.option(
    "--catalogue",
    "catalogues",
    multiple=True,
    type=click.Path(path_type=Path),
    envvar="TREELINE_CATALOGUE",
    show_envvar=True,
    help="Your own failure classes (YAML), added to the built-in ones; a class with the id of another "
    "replaces it. May be given more than once.",
)
EVIDENCE = "evidence.json"


@click.command("classify", short_help="Tell the cause of a failure from a log.")
@click.argument(
    "inputs", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True)
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line for each input.")
@click.option("--explain", is_flag=True, help="Say which lines decided, and which were rejected and why.")
@click.option(
    "--alive/--dead", default=None, help="Whether the service was alive. Not given: inferred from the log."
)
@click.option("--kernel", type=click.Path(path_type=Path), help="Kernel log of the same time, if separate.")
@click.option("--width", type=int, help="Verify width that graphs should have been captured for: budget + 1.")
@CATALOGUE
def command(
    inputs: Sequence[Path],
    as_json: bool,
    explain: bool,
    alive: bool | None,
    kernel: Path | None,
    width: int | None,
    catalogues: Sequence[Path],
) -> None:
    """Tell the first cause of a failure from the log in each FILE (- for standard input).

    A FILE holds `journalctl -o json` or `-o short-iso` output of the unit, or plain text; it may be packed
    with gzip, zstd, xz or bzip2. A folder is taken for the evidence of a trial: its journal, its kernel log,
    and whether the service was alive. Only the last service life in a log counts.

    The class is `ok` where nothing is wrong and `unknown` where the service died and no class fits; the
    evidence line is then the best there is. The exit code is 0 when every input could be read, else 1, after
    the others have been done.
    """
    from treeline.signatures.catalogue import CatalogueError
    from treeline.signatures.classify import classify_journal, search_engine

    failed = False
    for number, given in enumerate(inputs):
        try:
            source, beside, known = _material(given)
            verdict = classify_journal(
                source,
                alive=alive if alive is not None else known,
                kernel=kernel or beside,
                kernel_since=0 if beside and not kernel else None,  # a trial's own has no others
                catalogue=list(catalogues),
                expected_width=width,
                explain=explain,
            )
            if not verdict.lines:
                raise ValueError("no line of a log in it; it is empty, or a damaged archive")
        except CatalogueError as error:
            raise click.ClickException(str(error)) from error
        except OSError as error:
            if error.filename in map(str, catalogues):
                raise click.ClickException(f"{error.filename}: {error.strerror}") from error
            failed = _complain(error.filename or _name(given), error.strerror or str(error))
            continue
        except ValueError as error:
            failed = _complain(_name(given), str(error))
            continue
        if as_json:
            import msgspec

            click.echo(msgspec.json.encode(record(str(given), verdict, explain)))
            continue
        if len(inputs) > 1:
            click.echo(f"{chr(10) if number else ''}{_name(given)}")
        click.echo("\n".join([*describe(verdict), *(explained(verdict) if explain else [])]))
    _engine, note = search_engine()
    if note:
        click.echo(f"note: {note}", err=True)
    if failed:
        raise SystemExit(1)


def _name(given: Path) -> str:
    return "standard input" if str(given) == "-" else str(given)


def _complain(name: Any, what: str) -> bool:
    click.echo(f"Error: {name}: {what}", err=True)
    return True


def _material(given: Path) -> tuple[Any, Path | None, bool | None]:
    """Return the log of an input, the kernel log beside it, and whether the service lived, where known."""
    if str(given) == "-":
        return sys.stdin.buffer, None, None
    if not given.is_dir():
        return given, None, None
    import msgspec

    from treeline.evidence import JOURNAL, KERNEL

    if not (given / JOURNAL).is_file():
        raise ValueError(f"Is a directory, and no evidence of a trial: there is no {JOURNAL} in it")
    kernel = given / KERNEL
    try:
        said = msgspec.json.decode((given / EVIDENCE).read_bytes())
        alive = said.get("alive")
    except (OSError, msgspec.DecodeError, AttributeError):
        alive = None
    return given / JOURNAL, kernel if kernel.is_file() else None, alive if isinstance(alive, bool) else None


def record(given: str, verdict: LogVerdict, explain: bool) -> dict[str, Any]:
    """Return a verdict as the object that `--json` prints."""
    import msgspec

    fields: dict[str, Any] = msgspec.to_builtins(verdict)
    first = ("class", "phase", "kind", "rank", "captured_bs", "first_error", "secondary")
    left_out = {"accept_lens", *([] if explain else ["remarks"])}
    rest = [name for name in fields if name not in first and name not in left_out]
    return {"file": given, **{name: fields[name] for name in (*first, *rest)}, **_acceptance_fields(verdict)}


def _acceptance_fields(verdict: LogVerdict) -> dict[str, Any]:
    if not verdict.accept_lens:
        return {"acceptance": None}
    from statistics import median

    lens = verdict.accept_lens
    return {"acceptance": {"lines": len(lens), "min": min(lens), "median": median(lens), "max": max(lens)}}


def describe(verdict: LogVerdict) -> list[str]:
    """Return a verdict as lines for people; what is not known is left out."""
    known = [
        ("class", f"{verdict.class_} (confidence {verdict.confidence})"),
        ("kind", verdict.kind),
        ("phase", verdict.phase),
        ("first error", verdict.first_error),
        ("line", verdict.first_error_line_no),
        ("rank", verdict.rank),
        ("captured batch size", verdict.captured_bs),
        ("captured width", verdict.captured_width),
        ("rows", verdict.rows),
        ("also seen", ", ".join(verdict.secondary)),
        *(("silent", silence.detail) for silence in verdict.silent),
        ("reached phase", verdict.reached_phase if verdict.reached_phase != verdict.phase else None),
        ("decode lines", _acceptance(verdict)),
        ("lost lines", verdict.lost_lines or None),
        ("try", verdict.advice),
        ("reports", ", ".join(verdict.references)),
    ]
    return [f"{name + ':':21}{value}" for name, value in known if value not in (None, "")]


def explained(verdict: LogVerdict) -> list[str]:
    """Return what became of the lines that have to do with a class."""
    if not verdict.remarks:
        return ["", "No line holds anything of a class."]
    lines = []
    for remark in verdict.remarks:
        place = f"line {remark.line_no}" if remark.line_no else "kernel log"
        lines += ["", f"{'taken' if remark.taken else 'not taken'}: {remark.class_}, {place}: {remark.why}"]
        lines += [f"    {remark.line}"]
    return lines


def _acceptance(verdict: LogVerdict) -> str | None:
    found = _acceptance_fields(verdict)["acceptance"]
    if found is None:
        return None
    spread = f"{found['min']:.2f} .. {found['max']:.2f}, median {found['median']:.2f}"
    return f"{found['lines']} with an acceptance length: {spread}"
