"""Read a log block by block, and keep of its last service life what the rules need.

Three forms are understood: `journalctl -o json` (one object a line), `journalctl -o short*` text, and bare
text without a prefix (a container's log, a task's stderr). Only lines on which a scanner found something are
taken apart; of the rest, lines are counted and acceptance lengths read.
"""

from __future__ import annotations

import re
from collections import deque

from treeline_target import markers

from treeline.signatures.catalogue import Catalogue
from treeline.signatures.entries import (
    CUT,
    Entry,
    decode_raw,
    first_text,
    has_prefix,
    is_json,
    json_entry,
    message_text,
    text_entry,
)
from treeline.signatures.evidence import TAIL, Deaths
from treeline.signatures.joins import Joins, Whole
from treeline.signatures.life import Life
from treeline.signatures.lives import Lives
from treeline.signatures.match import Matcher
from treeline.signatures.needles import Needles
from treeline.signatures.ranks import JSON_RANKS, TEXT_RANKS
from treeline.signatures.source import Source, blocks
from treeline.signatures.takes import Taker

_HEAD = 8192  # bytes that tell which form a log has
_TAIL_BYTES = 1 << 16
_SAMPLED_WHOLE = 1 << 20  # bytes at the beginning in which every line is asked for its rank
_SAMPLE = 1 << 11  # bytes of each block after that
_LOST = re.compile(rb'"MESSAGE"\s*:\s*null|B blob data\]')
_OWN_ID = b'"_SYSTEMD_INVOCATION_ID"'
_DECODE = markers.DECODE[0]


class Reader:
    """Reads one log; the result is `life`, its last service life."""

    def __init__(self, catalogue: Catalogue, needles: Needles, *, kernel: bool = False) -> None:
        """Prepare to read one log; kernel: it is the kernel's own, so that it has no lives."""
        self._needles = needles
        self._kernel = kernel
        self._taker = Taker(needles, Matcher(catalogue))
        self._lives = Lives(lambda: Deaths(catalogue.consequence_exceptions), self._account)
        self._joins = Joins()
        self._json: bool | None = None
        self._block = b""
        self._base = 0  # offset of the block
        self._lines_before = 0  # lines before the block
        self._some_lost = False  # whether the block has a line without its text
        self._counted = (0, 0)  # a place in the block, and the lines before it
        self._decoded_to = (0, 0)  # a place in the block, and the decode lines of this life before it
        self._hidden: list[tuple[int, str]] = []  # decode lines of the block that are byte arrays
        self._recent: deque[tuple[int, int, bytes]] = deque()
        self._torn: set[int] = set()

    @property
    def life(self) -> Life:
        """The service life that is being read; at the end, the last one."""
        return self._lives.current

    def explains(self, entry: Entry) -> bool:
        """Tell whether an entry shows a class."""
        return self._taker.shows_class(entry)

    def read(self, source: Source) -> Life:
        """Read a whole log and return its last service life. Raises OSError when it cannot be read."""
        for block in blocks(source):
            self._feed(block)
        for whole in self._joins.give_up():
            self._take_whole(whole)
        self._lives.go_back()
        self._end()
        return self.life

    # --- blocks ----------------------------------------------------------------------------------------

    def _feed(self, block: bytes) -> None:
        if self._json is None and block.strip():
            self._json = is_json(block[:_HEAD])
        self._block, self._counted, self._decoded_to = block, (0, 0), (0, 0)
        self._some_lost = False
        self._hidden.clear()
        self._taker.new_block()
        self._joins.taken.clear()
        for whole in self._joins.go_on(block, self._base, 0):
            self._take_whole(whole)
        position: int | None = 0
        while position is not None:
            position = self._scan(position)
        self._look_for_another_life()
        self._account(self._base + len(block))
        self._recent.append((self._base, self._lines_before, block))
        while len(self._recent) > 1 and sum(len(piece[2]) for piece in self._recent) > _TAIL_BYTES * 2 + len(
            self._recent[0][2]
        ):
            self._recent.popleft()
        self._lines_before = self._number(len(block)) - 1
        self._base += len(block)

    def _scan(self, position: int) -> int | None:
        """Take every line from a position on that holds anything.

        Returns where to go on: after the first line of another life, for which all is new; None at the end.
        """
        block = self._block[position:] if position else self._block
        hits = self._needles.scanner.scan(block, self._taker.settled)
        index = 0
        while index < len(hits):
            number, end = hits[index]
            index += 1
            if number in self._taker.settled:
                continue
            begin = block.rfind(b"\n", 0, end) + 1
            stop = block.find(b"\n", end)
            stop = stop if stop >= 0 else len(block)
            if self._needles[number].role == "lost":
                self._some_lost = True
                continue
            numbers = {number}
            while index < len(hits) and hits[index][1] <= stop:
                numbers.add(hits[index][0])
                index += 1
            if self._line(position + begin, position + stop, numbers):
                return position + stop + 1 if position + stop + 1 < len(self._block) else None
        return None

    def _account(self, until: int) -> None:
        """Count what is only counted, from where the life begins in the block to an offset."""
        life, block, base = self.life, self._block, self._base
        begin, end = max(life.start - base, 0), until - base
        if begin >= end:
            return
        data = block[begin:end] if begin or end < len(block) else block
        if not life.prefixed and (life.start >= base or not base):
            life.prefixed = bool(self._json) or any(map(has_prefix, data[:_HEAD].split(b"\n")))
        life.lost += len(_LOST.findall(data)) if self._some_lost else 0
        life.decoding.look(data, base + begin, self._hidden)
        if life.decoding.last is not None and life.decoding.last >= base + begin:
            last = self._plain_entry(_line_at(block, life.decoding.last - base), life.decoding.last)
            life.decoding.last_pid = last.pid if last is not None else None
        first = self._plain_entry(data[: max(data.find(b"\n"), 0)], base + begin)
        if first is not None:
            life.note_time(first.at, first.offset)
            if life.start_at is None:
                life.start_at = first.at
        sample = data if base < _SAMPLED_WHOLE else data[:_SAMPLE]
        if not self._json:
            for one, tp, other, rank in set(TEXT_RANKS.findall(sample)):
                life.processes.add((one or other).decode(), int(tp or rank))
        elif JSON_RANKS.search(sample):
            for line in sample.split(b"\n"):
                entry = self._plain_entry(line, base) if JSON_RANKS.search(line) else None
                if entry is not None:
                    life.processes.look(entry)

    # --- lines -----------------------------------------------------------------------------------------

    def _line(self, begin: int, stop: int, numbers: set[int]) -> bool:
        """Take a line that holds something; tell whether it begins another life."""
        line, offset = self._block[begin:stop], self._base + begin
        line_no = self._number(begin)
        life = self.life
        served = life.ready is not None and not life.deaths.fatal
        if self._needles.only_exception(numbers, served=served) and life.deaths.look_lazily(
            lambda: self._plain_entry(line, offset, line_no)
        ):
            return False
        if self._json:
            return self._json_line(line, offset, line_no, stop, numbers)
        entry = text_entry(line, offset, line_no)
        if self._kernel:
            entry = entry._replace(kernel=True)
        elif self._needles.has(numbers, "start") and self._lives.begins_in_text(entry):
            self._new_life(stop)
            return True
        self._taker.take(self.life, entry, numbers, lambda: self._decoded(begin))
        return False

    def _json_line(self, line: bytes, offset: int, line_no: int, stop: int, numbers: set[int]) -> bool:
        if offset in self._joins.taken:
            return False
        raw = decode_raw(line)
        if raw is None:
            self._torn.add(offset)
            return False
        begun = not self._kernel and self._lives.begins_in_json(raw, offset, line_no)
        if begun:
            self._new_life(stop)
        if first_text(raw.cut) in CUT and self._lives.ours(raw):
            self._joins.begin(raw, offset, line_no)
            for whole in self._joins.go_on(self._block, self._base, stop):
                self._take_whole(whole)
            return begun
        message = message_text(raw.message)
        if message is None:
            return begun
        entry = json_entry(raw, message, offset, line_no)
        if self._kernel:
            entry = entry._replace(kernel=True)
        if not self._lives.ours(raw):
            self._taker.refuse(self.life, entry, numbers, "the line belongs to another service life")
        elif self._needles.has(numbers, "bytes"):
            self._take_hidden(entry)
        else:
            self._taker.take(self.life, entry, numbers, lambda: self._decoded(offset - self._base))
        return begun

    def _take_whole(self, whole: Whole) -> None:
        self._take_hidden(json_entry(whole.raw, whole.message, whole.offset, whole.line_no))

    def _take_hidden(self, entry: Entry) -> None:
        """Take an entry whose text is not in the raw log as it is."""
        if _DECODE in entry.message:
            self._hidden.append((entry.offset, entry.message))
        numbers = self._needles.in_text(entry.message)
        self._taker.take(self.life, entry, numbers, lambda: self._decoded(entry.offset - self._base))

    def _plain_entry(self, line: bytes, offset: int, line_no: int = 0) -> Entry | None:
        """Return the entry on a line of this life; None for a line of another one, or without text."""
        if not self._json:
            return text_entry(line, offset, line_no)
        raw = decode_raw(line)
        message = message_text(raw.message) if raw is not None else None
        if raw is None or message is None or not self._lives.ours(raw):
            return None
        return json_entry(raw, message, offset, line_no)

    def _decoded(self, end: int) -> int:
        """Return how many decode lines of this life there are before a place in the block."""
        position, count = self._decoded_to
        if end > position:
            count += self._block.count(_DECODE.encode(), position, end)
            self._decoded_to = (end, count)
        return self.life.decoding.lines + count + len(self._hidden)

    def _number(self, begin: int) -> int:
        position, count = self._counted
        if begin < position:
            position, count = 0, 0
        count += self._block.count(b"\n", position, begin)
        self._counted = (begin, count)
        return self._lines_before + count + 1

    # --- lives -----------------------------------------------------------------------------------------

    def _look_for_another_life(self) -> None:
        """Find a life in JSON of which no line held anything of interest so far."""
        place = self._block.rfind(_OWN_ID) if self._json and not self._kernel else -1
        if place < 0:
            return
        line = _line_at(self._block, place)
        raw = decode_raw(line)
        if raw is None or not self._lives.is_new(raw):
            return
        own = (first_text(raw.own) or "").encode()
        begin = self._block.rfind(b"\n", 0, self._block.find(own)) + 1
        first = decode_raw(_line_at(self._block, begin))
        if self._lives.begins_in_json(first or raw, self._base + begin, self._number(begin)):
            self._new_life(begin)

    def _new_life(self, position: int) -> None:
        self._taker.new_life()
        self._hidden.clear()
        self._decoded_to = (position, 0)

    def _end(self) -> None:
        life = self.life
        end = self._base if life.end is None else life.end
        entries: list[Entry] = []
        for base, before, block in self._recent:
            position = 0
            for number, line in enumerate(block.split(b"\n"), before + 1):
                offset = base + position
                position += len(line) + 1
                if not life.start <= offset < end or not line.strip():
                    continue
                if self._json and decode_raw(line) is None:
                    self._torn.add(offset)
                    continue
                entry = self._plain_entry(line, offset, number)
                if entry is not None:
                    entries.append(entry)
        unfinished = bool(self._block) and not self._block.endswith(b"\n")
        life.lines = (life.next_line_no or self._lines_before + unfinished + 1) - life.line_no
        life.tail = entries[-TAIL:]
        life.lost += sum(life.start <= offset < end for offset in self._torn)


def _line_at(block: bytes, place: int) -> bytes:
    end = block.find(b"\n", place)
    return block[block.rfind(b"\n", 0, place) + 1 : end if end >= 0 else None]
