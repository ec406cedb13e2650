"""From the journal of one service life to its first cause: the doors of the classifier."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path

from treeline.signatures.catalogue import Catalogue, load_catalogue
from treeline.signatures.life import Life
from treeline.signatures.match import Match
from treeline.signatures.needles import Needles
from treeline.signatures.reader import Reader
from treeline.signatures.rules import Judge
from treeline.signatures.scanner import Engine
from treeline.signatures.source import Source
from treeline.signatures.verdict import LogVerdict


def classify_journal(
    source: Source,
    *,
    alive: bool | None,
    kernel: Source | None = None,
    kernel_since: int | None = None,
    catalogue: Path | Sequence[Path] | None = None,
    expected_width: int | None = None,
    explain: bool = False,
    engine: Engine | None = None,
) -> LogVerdict:
    """Return what the journal of a unit says about its last service life.

    source: a file (`journalctl -o json` or `-o short-iso`, plain text; gzip, zstd, xz and bzip2 are
    recognised), a binary stream, or lines. It is read once and never held whole.
    alive: whether the unit was active when the journal was taken; None: infer it from the log. Then a text
    without any mark of an engine or a journal is `unknown`.
    kernel: the kernel's lines of the same time, where they are not in `source`.
    kernel_since: those from this time on count, in microseconds since the epoch; None: those since the start
    of the life. A trial begins before its process does: what fails meanwhile is the trial's business.
    catalogue: the user's own classes, added to the built-in ones (same id replaces, later files win); None:
    the files named in the environment variable TREELINE_CATALOGUE, if any.
    expected_width: verify width in tokens per request that graphs should have been captured for.
    explain: fill the verdict's `remarks`.
    engine: search with this engine instead of the fastest one there is; ImportError where it is missing.
    Raises OSError (a file cannot be read) and CatalogueError.
    """
    loaded = load_catalogue(catalogue)
    needles = _needles(_Same(loaded), engine)
    reader = Reader(loaded, needles)
    life = reader.read(source)
    placed: list[Match] = []
    if kernel is not None:
        placed = list(_placed(life, Reader(loaded, needles, kernel=True).read(kernel), kernel_since))
    judge = Judge(life, loaded, reader.explains, placed)
    return judge.verdict(alive, expected_width=expected_width, explain=explain)


def classify_text(text: str, *, catalogue: Path | Sequence[Path] | None = None) -> LogVerdict:
    """Return what a piece of text about a failure (a task's message, its stderr) says about the cause.

    The phase is None unless the text shows it or the class has only one.
    """
    return classify_journal([text], alive=False, catalogue=catalogue)


def search_engine() -> tuple[str, str]:
    """Return the name of the engine that searches logs, and why it is not the fastest (empty if it is)."""
    scanner = _needles(_Same(load_catalogue()), None).scanner
    return scanner.name, scanner.note


def _placed(life: Life, kernel: Life, since: int | None) -> Iterator[Match]:
    """Yield what a separate kernel log shows since a time (None: in the life), at its time in the life."""
    for match in kernel.matches:
        at = match.entry.at
        counts = not life.too_old(at) if since is None else at is None or at >= since
        if match.signature.source == "any" and counts:
            entry = match.entry._replace(offset=life.place(at), line_no=None)
            yield match._replace(entry=entry)


class _Same:
    """A catalogue as a key: the loader returns the same object for the same files."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.catalogue is self.catalogue

    def __hash__(self) -> int:
        return id(self.catalogue)


@functools.lru_cache(maxsize=4)
def _needles(catalogue: _Same, engine: Engine | None) -> Needles:
    return Needles(catalogue.catalogue, engine)
