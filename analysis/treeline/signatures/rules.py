"""From what was kept of a service life to its first cause.

The rules, in order: node and host causes before anything the engine says; then the earliest specific error;
wrappers, watchdogs and NCCL's "the other side has gone" only where there is nothing better; a death without a
class is `unknown` with its evidence. `unknown` is a good answer, a wrong class is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec
from treeline_target import markers

from treeline.signatures import evidence, silent
from treeline.signatures.acceptance import collapsed, floor_run
from treeline.signatures.catalogue import TIERS, Catalogue, Signature
from treeline.signatures.entries import Entry
from treeline.signatures.life import Life
from treeline.signatures.match import NO_REGEX, Match, excerpt
from treeline.signatures.phases import Mark, Timeline
from treeline.signatures.verdict import LogVerdict, Remark

ALWAYS_COUNT = frozenset({"node_kernel", "node_consequence", "host"})
"""Tiers whose lines matter although the service goes on: the node is at fault, not the configuration."""
_SURE = 8  # decode lines at the floor from which a collapse is called with high confidence
_SURVIVED = 3  # decode lines after an error from which on the service is taken to have survived it
_GOES_ON = 2  # the same, where nothing says that it died


class Judge:
    """Applies the rules to one service life."""

    def __init__(
        self,
        life: Life,
        catalogue: Catalogue,
        explains: Callable[[Entry], bool],
        kernel: Sequence[Match] = (),
    ) -> None:
        """Take what was kept of a life.

        explains: whether an entry shows a class. kernel: matches of a separate kernel log, placed in the
        life.
        """
        self._life = life
        self._catalogue = catalogue
        self._explains = explains
        first = life.decoding.first
        decoded = [] if first is None else [Mark(first, markers.DECODE[1], None)]
        self._timeline = Timeline([*life.marks, *decoded])
        found = sorted([*life.matches, *kernel], key=lambda match: match.entry.offset)
        self._ours = [match for match in found if life.processes.concerns(match)]
        self._foreign = [match for match in found if not life.processes.concerns(match)]
        self._matches = [match for match in self._ours if self._counts(match)]
        self._fatal = life.deaths.fatal or any(match.signature.id == "sigquit" for match in self._matches)

    def verdict(
        self, alive: bool | None, *, expected_width: int | None = None, explain: bool = False
    ) -> LogVerdict:
        """Return the verdict.

        alive: whether the unit was active when the log was taken; None: infer it.
        expected_width: verify width in tokens per request that the engine should have captured graphs for.
        explain: fill `remarks`.
        """
        inferred = alive is None
        fine = (self._seems_alive() if alive is None else alive) or self._timeline.reached() == "shutdown"
        fine = fine and not self._fatal
        causes = [match for match in self._matches if self._may_be_cause(match, fine)]
        cause = min(causes, key=self._precedence, default=None)
        unexplained: evidence.Line | None = None
        if cause is not None and self._weak(cause):
            unexplained = self._life.deaths.unexplained(self._explained)
            cause = None if unexplained is not None else cause
        if cause is not None:
            verdict = self._caused(cause)
        elif unexplained is not None:
            verdict = self._unknown((unexplained.entry, unexplained.text))
        elif not fine:
            verdict = self._unknown(self._last_words())
        elif inferred and not self._life.prefixed and not self._timeline.seen:
            # Nothing shows that this is an engine's log: no news is no good news then.
            verdict = self._unknown(None)
        else:
            verdict = self._quiet()
        silence = silent.silences(self._life, expected_width)
        remarks = tuple(self._remarks(cause, fine)) if explain else ()
        return msgspec.structs.replace(verdict, silent=silence, remarks=remarks)

    # --- which lines count -----------------------------------------------------------------------------

    def _counts(self, match: Match) -> bool:
        """Noise after an ordered stop is no evidence, unless the node itself is at fault."""
        return match.signature.tier in ALWAYS_COUNT or self._timeline.at(match.entry.offset) != "shutdown"

    def _may_be_cause(self, match: Match, fine: bool) -> bool:
        tier = match.signature.tier
        if tier not in TIERS or self._out_of_place(match):
            return False
        return tier in ALWAYS_COUNT or not fine

    def _precedence(self, match: Match) -> tuple[int, bool, int]:
        return TIERS.index(match.signature.tier), self._weak(match), match.entry.offset

    def _weak(self, match: Match) -> bool:
        """Tell whether an error that no class explains is a better answer."""
        return match.signature.yields_to_unknown or self._survived(match, _SURVIVED)

    def _survived(self, match: Match, decoded: int) -> bool:
        """Tell whether the service decoded on after an error before its process died, if it did at all."""
        life = self._life
        died = life.deaths.died_at(match.entry.pid)
        if match.signature.tier != "application" or (died is not None and died <= match.entry.offset):
            return False
        before = life.decoded_before.get(match.entry.offset, life.decoding.lines)
        after = life.decoding.lines if died is None else life.decoded_before.get(died, before)
        return after - before >= decoded

    def _out_of_place(self, match: Match) -> bool:
        """Tell whether a class of the start shows up while the service serves, and nothing dies of it.

        A request that is refused prints the same kind of error as an argument that is.
        """
        if not match.signature.of_the_start or self._life.deaths.died_at(match.entry.pid) is not None:
            return False
        return self._life.ready is not None and self._life.ready < match.entry.offset

    def _seems_alive(self) -> bool:
        life = self._life
        if life.died or self._fatal:
            return False
        may_kill = frozenset(TIERS) - ALWAYS_COUNT
        errors = [match for match in self._matches if match.signature.tier in may_kill]
        # Python's own warnings kill nothing, though the node may be why there is one.
        errors = [m for m in errors if m.signature.tier != "application" or "Warning: " not in m.line]
        if not all(self._went_on(match) for match in errors):
            return False
        if life.prefixed:
            return True
        # A bare text has no systemd to say so: an error that ends it counts as a death.
        if not self._timeline.seen:
            return not self._matches and life.deaths.last_line() is None
        last = life.deaths.last_line()
        return last is None or life.deaths.is_consequence(last) or self._goes_on_after(last.entry)

    def _went_on(self, match: Match) -> bool:
        return match.signature.tier not in ALWAYS_COUNT and self._goes_on_after(match.entry)

    def _goes_on_after(self, entry: Entry) -> bool:
        decoding = self._life.decoding
        if decoding.last is not None and decoding.last > entry.offset:
            # A rank that has died does not decode; another one may, until it waits for the dead one.
            before = self._life.decoded_before.get(entry.offset, 0)
            same = entry.pid is not None and entry.pid == decoding.last_pid
            if same or decoding.lines - before >= _GOES_ON:
                return True
        return self._timeline.went_on(entry.offset, entry.pid)

    def _explained(self, entry: Entry) -> bool:
        shown = {match.entry.offset for match in self._ours}
        return entry.offset in shown or self._explains(entry)

    # --- the answers -----------------------------------------------------------------------------------

    def _caused(self, cause: Match) -> LogVerdict:
        signature = cause.signature
        sure = signature.tier != "fallback" and not self._weak(cause)
        phase = self._phase(signature, cause.entry.offset, cause.entry.pid)
        return self._build(signature, phase, sure, (cause.entry, cause.line, cause.pid))

    def _unknown(self, line: tuple[Entry, str] | None) -> LogVerdict:
        signature = self._catalogue.by_id("unknown")
        if line is None:
            return self._build(signature, self._phase(signature, 1 << 62, None), False, None)
        entry, text = line
        return self._build(
            signature, self._phase(signature, entry.offset, entry.pid), False, (entry, text, None)
        )

    def _last_words(self) -> tuple[Entry, str] | None:
        return evidence.last_words(self._life.deaths, self._life.tail, self._explained)

    def _quiet(self) -> LogVerdict:
        """No error: look at what the decode lines say about speculation, and whether there are any."""
        decoding = self._life.decoding
        if silent.stalled(self._life):
            entry = self._life.unanswered[-1]
            return self._unknown((entry, excerpt(entry.message, 0)))
        if collapsed(decoding.lens):
            sure = floor_run(decoding.lens) >= _SURE
            return self._build(self._catalogue.by_id("silent_corruption"), "serving", sure, None)
        if decoding.asked and not decoding.lens and decoding.lines >= _GOES_ON:
            sure = decoding.lines >= _SURE or self._life.captures.width() == 1
            return self._build(self._catalogue.by_id("spec_disabled"), "serving", sure, None)
        return self._build(self._catalogue.by_id("ok"), self._reached(), True, None)

    def _reached(self) -> str | None:
        return self._timeline.reached() if self._timeline.seen or self._life.prefixed else None

    def _phase(self, signature: Signature, offset: int, pid: str | None) -> str | None:
        if self._timeline.seen or self._life.prefixed:
            return self._timeline.at(offset, pid)
        return signature.phases[0] if len(signature.phases) == 1 else None

    # --- why -------------------------------------------------------------------------------------------

    def _remarks(self, cause: Match | None, fine: bool) -> Iterator[Remark]:
        """Yield what became of the first line of every class and reason, the first cause first."""
        if cause is not None:
            why = f"the first cause: the earliest line of the strongest tier here, {cause.signature.tier}"
            yield _remark(cause, True, why)
        said = {cause.signature.id: ""} if cause is not None else {}
        for match in [*self._ours, *self._foreign]:
            why = self._why_not(match, cause, fine)
            if match.signature.id not in said:
                said[match.signature.id] = why
                yield _remark(match, False, why)
        shown = {match.entry.line_no for match in self._ours}
        for other in self._life.remarks:
            if other.line_no in shown and other.why.endswith(NO_REGEX):
                continue  # another class took the line: of no interest
            yield Remark(
                class_=other.class_id, taken=False, why=other.why, line=other.line, line_no=other.line_no
            )

    def _why_not(self, match: Match, cause: Match | None, fine: bool) -> str:
        tier = match.signature.tier
        if not self._life.processes.concerns(match):
            return f"it is about process {match.pid} ({match.name}), which is none of this unit's"
        if not self._counts(match):
            return "it came after an ordered stop"
        if tier not in TIERS:
            return f"the class is never a cause (tier {tier})"
        if self._out_of_place(match):
            phases = ", ".join(match.signature.phases)
            return f"the class belongs to {phases}, the engine was serving and nothing died of it"
        if cause is None:
            if fine:
                return "the service did not end by it"
            return "an error that a process died of and no class explains is the better answer"
        if TIERS.index(cause.signature.tier) < TIERS.index(tier):
            return f"tier {tier} loses to {cause.signature.tier} ({cause.signature.id})"
        if self._weak(match) and not self._weak(cause):
            return "the service went on after it, or it says only that another process has gone"
        return "it came later than the first cause"

    def _build(
        self,
        signature: Signature,
        phase: str | None,
        sure: bool,
        shown: tuple[Entry, str, str | None] | None,
    ) -> LogVerdict:
        life = self._life
        healthy = signature.tier == "derived" and signature.id != "unknown"
        seen = {
            match.signature.id
            for match in self._matches
            # What a healthy service went on after was no failure of it.
            if not (healthy and match.signature.tier in TIERS and self._went_on(match))
        } - {signature.id}
        place = shown[0].offset if shown is not None and phase == "graph_capture" else None
        return LogVerdict(
            class_=signature.id,
            phase=phase,
            kind=signature.kind,
            confidence="high" if sure else "low",
            first_error=shown[1] if shown else None,
            first_error_line_no=shown[0].line_no if shown else None,
            rank=life.processes.rank_of(*shown) if shown else None,
            captured_bs=None if place is None else life.captures.batch_size(place),
            captured_width=life.captures.width(),
            rows=None if place is None else life.captures.rows(place),
            secondary=tuple(known.id for known in self._catalogue.signatures if known.id in seen),
            advice=signature.advice,
            references=tuple(signature.references),
            accept_lens=tuple(life.decoding.lens),
            reached_phase=self._reached(),
            lines=life.lines,
            lost_lines=life.lost,
        )


def _remark(match: Match, taken: bool, why: str) -> Remark:
    return Remark(
        class_=match.signature.id, taken=taken, why=why, line=match.line, line_no=match.entry.line_no
    )
