"""Take one entry of a log into account: what it says about the life, and which classes it shows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable

from treeline.signatures.catalogue import TIERS
from treeline.signatures.entries import JOURNALD, Entry
from treeline.signatures.life import Life
from treeline.signatures.match import Match, Matcher
from treeline.signatures.needles import DIED, Needle, Needles
from treeline.signatures.phases import Mark

_SUPPRESSED = re.compile(r"Suppressed (\d+) messages from ")
_PER_BLOCK = 16  # matches of a class in one block after which its strings are skipped; of a mere warning, 1


class Taker:
    """Applies the needles found on a line to the life that is being read."""

    def __init__(self, needles: Needles, matcher: Matcher) -> None:
        self._needles = needles
        self._matcher = matcher
        self._matched: Counter[str] = Counter()
        self._enough: set[str] = set()
        self._seen: set[int] = set()
        self.settled: set[int] = set()
        """Needles that tell nothing new: in this block, or in this life."""

    def new_block(self) -> None:
        """Look at every class again."""
        self._matched.clear()
        self._enough.clear()
        self.settled = set(self._seen)

    def new_life(self) -> None:
        """Look at everything again."""
        self._seen.clear()
        self.new_block()

    def take(self, life: Life, entry: Entry, numbers: Iterable[int], decoded: Callable[[], int]) -> None:
        """Take an entry into account.

        numbers: needles that were found on its line. decoded: tells how many decode lines came before.
        """
        numbers = list(numbers)
        if entry.kernel and life.too_old(entry.at):
            self.refuse(life, entry, numbers, "the line is older than this service life")
            return
        life.processes.look(entry)
        life.note_time(entry.at, entry.offset)
        roles = set()
        for number in numbers:
            needle = self._needles[number]
            roles.add(needle.role)
            if _apply(life, entry, needle):
                self._seen.add(number)
                self.settled.add(number)
        if roles & {"dies", "exception"}:
            life.deaths.look(entry)
        if "dies" in roles:
            life.decoded_before[entry.offset] = decoded()
        candidates = self._needles.signatures(numbers)
        if life.ready is not None and life.deaths.died_at(entry.pid) is None:
            # A request that is refused prints the same kind of error as an argument that is.
            candidates = [signature for signature in candidates if not signature.of_the_start]
        for match in self._matcher.matches(entry, candidates, life.remarks):
            self._keep(life, match, decoded)

    def refuse(self, life: Life, entry: Entry, numbers: Iterable[int], why: str) -> None:
        """Remark that an entry shows a class and does not count."""
        for match in self._matcher.matches(entry, self._needles.signatures(numbers)):
            life.remarks.add(match.signature.id, why, match.line, entry.line_no)

    def shows_class(self, entry: Entry) -> bool:
        """Tell whether an entry shows a class."""
        signatures = self._needles.signatures(self._needles.in_text(entry.message))
        return any(True for _match in self._matcher.matches(entry, signatures))

    def _keep(self, life: Life, match: Match, decoded: Callable[[], int]) -> None:
        life.keep(match, decoded() if match.signature.tier in TIERS else 0)
        class_id = match.signature.id
        self._matched[class_id] += 1
        if self._matched[class_id] == (_PER_BLOCK if match.signature.tier in TIERS else 1):
            self._enough.add(class_id)
            self.settled.update(self._needles.settled_by(class_id, self._enough))


def _apply(life: Life, entry: Entry, needle: Needle) -> bool:
    """Do what a needle stands for; tell whether no other line with it is of interest."""
    message = entry.message
    mark = Mark(entry.offset, needle.phase, entry.pid)
    match needle.role:
        case "loading" | "serving" if needle.text in message:
            life.marks.append(mark)
            if needle.phase == "serving" and life.ready is None:
                life.ready = entry.offset
            return needle.role == "serving"
        case "capture" if life.captures.begun(entry):
            life.marks.append(mark)
        case "captured":
            life.captures.ended(entry)
        case "bar":
            life.captures.bar(entry)
        case "stopping" if entry.systemd and message.startswith("Stopping ") and life.is_about(message):
            life.marks.append(mark)
        case "ended" if entry.systemd and life.is_about(message):
            life.over = True
            life.died = life.died or any(text in message for text in DIED)
        case "asked":
            life.decoding.look_at_arguments(entry)
            return life.decoding.asked is not None
        case "tree":
            life.decoding.look_at_tree(entry)
        case "health" if needle.text in message:
            life.unanswered = [*life.unanswered[:1], entry]
        case "rank":
            life.processes.look_for_named(entry)
        case "suppressed" if entry.ident == JOURNALD:
            dropped = _SUPPRESSED.match(message)
            life.lost += int(dropped[1]) if dropped else 0
        case _:
            pass
    return False
