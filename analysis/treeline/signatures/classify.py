"""From the journal of one service life to its first cause.

The rules, in order: the last service life only; node and host causes before anything the engine says; then
the earliest specific error; wrappers, watchdogs and NCCL's "the other side has gone" only where there is
nothing better; a death without a class is `unknown` with its evidence. `unknown` is a good answer, a wrong
class is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from treeline.signatures import acceptance, evidence
from treeline.signatures.catalogue import TIERS, Catalogue, Signature, load_catalogue
from treeline.signatures.entries import Entry
from treeline.signatures.journal import Journal
from treeline.signatures.match import Match, Matcher, concerns_unit, rank_of
from treeline.signatures.phases import Timeline, captured_bs, captured_width
from treeline.signatures.source import Source, read_source
from treeline.signatures.verdict import LogVerdict

_ALWAYS_COUNTS = frozenset({"node_kernel", "node_consequence", "host"})
"""Tiers whose lines matter although the service goes on: the node is at fault, not the configuration."""
_SURE = 8  # decode lines at the floor from which a collapse is called with high confidence


def classify_journal(
    source: Source,
    *,
    alive: bool | None,
    kernel: Source | None = None,
    catalogue: Path | None = None,
) -> LogVerdict:
    """Return what the journal of a unit says about its last service life.

    source: a file (`journalctl -o json` or `-o short-iso`, plain text; gzip is recognised) or its lines.
    alive: whether the unit was active when the journal was taken; None: infer it from the log. Then a text
    without any mark of an engine or a journal is `unknown`.
    kernel: the kernel's lines of the same time, where they are not in `source`.
    catalogue: the user's own classes, added to the built-in ones (same id replaces).
    Raises OSError (a file cannot be read) and CatalogueError.
    """
    loaded = load_catalogue(catalogue)
    reading = _Reading(Journal(read_source(source)), loaded)
    if kernel is not None:
        reading.add_kernel(Journal(read_source(kernel)))
    return reading.verdict(alive)


def classify_text(text: str, *, catalogue: Path | None = None) -> LogVerdict:
    """Return what a piece of text about a failure (a task's message, its stderr) says about the cause.

    The phase is None unless the text shows it or the class has only one.
    """
    return classify_journal([text], alive=False, catalogue=catalogue)


class _Reading:
    """Everything of interest in one journal, before the rules are applied."""

    def __init__(self, journal: Journal, catalogue: Catalogue) -> None:
        self.journal = journal
        self.catalogue = catalogue
        self.matcher = Matcher(catalogue)
        self.matches: list[Match] = []
        self.deaths = evidence.Deaths(catalogue.consequence_exceptions)
        self.elsewhere: set[int] = set()
        encoded: list[Entry] = []
        gates = catalogue.gates
        extra = [needle for needle in evidence.NEEDLES if not any(gate in needle for gate in gates)]
        for offset in journal.candidates([*gates, *extra]):
            entry = journal.entry(offset)
            if entry is None:
                continue
            if journal.hides_text(offset):
                encoded.append(entry)
            self.deaths.look(entry)
            self.matches += [match for match in self.matcher.matches(entry) if concerns_unit(journal, match)]
        self.encoded = encoded
        self.timeline = Timeline(journal, encoded)
        self.lens = acceptance.accept_lens(journal, encoded)

    def add_kernel(self, kernel: Journal) -> None:
        """Add the lines of a separate kernel log at their time."""
        kernel.start, kernel.invocation = 0, None
        for offset in kernel.candidates(self.catalogue.gates):
            entry = kernel.entry(offset)
            if entry is None or self.journal.too_old(entry.at):
                continue
            # A place just before the next line of the unit's journal stands for the time.
            place = max(self.journal.offset_at(entry.at) - 1, self.journal.start)
            placed = entry._replace(offset=place, kernel=True, source="kernel")
            self.matches += [
                match for match in self.matcher.matches(placed) if concerns_unit(self.journal, match)
            ]

    # --- the rules -------------------------------------------------------------------------------------

    def verdict(self, alive: bool | None) -> LogVerdict:
        inferred = alive is None
        if alive is None:
            alive = self._seems_alive()
        healthy_end = alive or self.timeline.reached() == "shutdown"
        matches = [match for match in self.matches if self._counts(match)]
        causes = [match for match in matches if match.signature.tier in TIERS]
        if healthy_end and not self._fatal(matches):
            causes = [match for match in causes if match.signature.tier in _ALWAYS_COUNTS]
        cause = min(causes, key=_precedence, default=None)
        explained = {match.entry.offset for match in self.matches}
        if cause is not None and cause.signature.yields_to_unknown:
            better = evidence.unexplained(self.deaths.lines, explained)
            if better is not None:
                return self._unknown(better, matches)
        if cause is not None:
            return self._caused(cause, matches)
        if healthy_end and not self._fatal(matches):
            if inferred and not self.journal.prefixed and not self.timeline.seen:
                # Nothing shows that this is an engine's log: no news is no good news then.
                return self._unknown(None, matches)
            return self._quiet(matches)
        return self._unknown(evidence.last_words(self.journal, self.deaths.lines, explained), matches)

    def _counts(self, match: Match) -> bool:
        """Noise after an ordered stop is no evidence, unless the node itself is at fault."""
        return match.signature.tier in _ALWAYS_COUNTS or self.timeline.at(match.entry.offset) != "shutdown"

    def _fatal(self, matches: Sequence[Match]) -> bool:
        return self.deaths.fatal or any(match.signature.id == "sigquit" for match in matches)

    def _seems_alive(self) -> bool:
        if evidence.died(self.journal) or self._fatal(self.matches):
            return False
        # A bare text has no systemd to say so: an error that is a class, or ends the text, counts as a death.
        return self.journal.prefixed or not (self.matches or self.deaths.lines)

    def _caused(self, cause: Match, matches: Sequence[Match]) -> LogVerdict:
        signature = cause.signature
        return self._build(
            signature,
            self._phase(signature, cause.entry.offset, cause.entry.pid),
            "low" if signature.tier == "fallback" else "high",
            matches,
            (cause.entry, cause.line, cause.pid),
        )

    def _unknown(self, line: evidence.Line | None, matches: Sequence[Match]) -> LogVerdict:
        signature = self.catalogue.by_id("unknown")
        if line is None:
            phase = self._phase(signature, len(self.journal.data), None)
            return self._build(signature, phase, "low", matches, None)
        phase = self._phase(signature, line.entry.offset, line.entry.pid)
        return self._build(signature, phase, "low", matches, (line.entry, line.text, None))

    def _quiet(self, matches: Sequence[Match]) -> LogVerdict:
        """No error: look at what the decode lines say about speculation."""
        lens = self.lens
        if acceptance.collapsed(lens):
            sure = "high" if acceptance.floor_run(lens) >= _SURE else "low"
            return self._build(self.catalogue.by_id("silent_corruption"), "serving", sure, matches, None)
        decoded = acceptance.decode_lines(self.journal)
        if not lens and decoded >= 2 and acceptance.speculation_asked(self.journal):
            sure = "high" if decoded >= _SURE or captured_width(self.journal, self.encoded) == 1 else "low"
            return self._build(self.catalogue.by_id("spec_disabled"), "serving", sure, matches, None)
        phase = self.timeline.reached() if self.timeline.seen or self.journal.prefixed else None
        return self._build(self.catalogue.by_id("ok"), phase, "high", matches, None)

    def _phase(self, signature: Signature, offset: int, pid: str | None) -> str | None:
        if self.timeline.seen or self.journal.prefixed:
            return self.timeline.at(offset, pid)
        return signature.phases[0] if len(signature.phases) == 1 else None

    def _build(
        self,
        signature: Signature,
        phase: str | None,
        confidence: str,
        matches: Sequence[Match],
        shown: tuple[Entry, str, str | None] | None,
    ) -> LogVerdict:
        journal = self.journal
        seen = {match.signature.id for match in matches} - {signature.id}
        failing = phase == "graph_capture" and shown is not None
        return LogVerdict(
            class_=signature.id,
            phase=phase,
            kind=signature.kind,
            confidence=confidence,
            first_error=shown[1] if shown else None,
            first_error_line_no=None
            if shown is None or shown[0].source
            else journal.line_number(shown[0].offset),
            rank=rank_of(journal, *shown) if shown else None,
            captured_bs=captured_bs(journal, self.encoded, shown[0].offset) if failing and shown else None,
            captured_width=captured_width(journal, self.encoded),
            secondary=tuple(known.id for known in self.catalogue.signatures if known.id in seen),
            advice=signature.advice,
            references=tuple(signature.references),
            accept_lens=self.lens,
            reached_phase=self.timeline.reached() if self.timeline.seen or journal.prefixed else None,
            lines=journal.line_count(),
            lost_lines=journal.lost_lines(),
        )


def _precedence(match: Match) -> tuple[int, bool, int]:
    tier = TIERS.index(match.signature.tier)
    return tier, match.signature.yields_to_unknown, match.entry.offset
