"""Ranks other than 0: processes that live for as long as they print.

A journal tells ranks apart by the process id behind each line, as it does with real ones. Ranks take turns
line by line where a profile asks for it: the writes of real ranks land between each other's.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .crash import fill, rank_text
from .faults import Fault
from .kernel_lines import append_kernel_lines


class Rank:
    """One rank's process (rank 0: this one); writes what it is told to, line by line."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.pid = os.getpid()
        self._orders = -1
        if number != 0:
            self._start()

    def _start(self) -> None:
        orders, self._orders = os.pipe()
        answers, done = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._orders)
            os.close(answers)
            _obey(orders, done)
        os.close(orders)
        os.close(done)
        self._answers = answers

    def write(self, text: str) -> None:
        """Write ``text`` as this rank and wait until it is written."""
        data = text.encode()
        if self.number == 0:
            _write(data)
            return
        os.write(self._orders, len(data).to_bytes(4, "big") + data)
        os.read(self._answers, 1)

    def end(self, abort: bool) -> None:
        """End the rank's process. Rank 0 goes on."""
        if self.number == 0:
            return
        if abort:
            os.kill(self.pid, signal.SIGABRT)
        os.close(self._orders)
        os.close(self._answers)
        os.waitpid(self.pid, 0)


def _obey(orders: int, done: int) -> None:
    """The life of a rank's process: write what comes, until the other end is closed."""
    signal.signal(signal.SIGABRT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # its end is played; nobody needs its memory
    try:
        while len(head := os.read(orders, 4)) == 4:
            left = int.from_bytes(head, "big")
            data = b""
            while len(data) < left:
                data += os.read(orders, left - len(data))
            _write(data)
            os.write(done, b".")
    finally:
        os._exit(1)


def _write(data: bytes) -> None:
    sys.stderr.flush()
    while data:
        data = data[os.write(2, data) :]


def die_on_ranks(
    fault: Fault,
    phase: str,
    tp_size: int,
    facts: Mapping[str, Any],
    kernel_log: str | None,
    tell_parent: Callable[[int, int, int], None],
) -> None:
    """Print what the fault's ranks print, in order. Rank 0 is this process and does not end here.

    ``tell_parent(rank, pid, code)`` is called when a rank's process was aborted, as the parent then says so.
    """
    error = fault.error
    numbers = [rank for rank in fault.ranks if rank < tp_size] or [0]
    with contextlib.ExitStack() as stack:
        ranks = [Rank(number) for number in numbers]
        aborts = error.death == "abort"
        for rank in ranks[1:] if aborts else ranks:
            stack.callback(rank.end, abort=False)
        append_kernel_lines(
            kernel_log, [fill(line, facts, 0, tp_size, ranks[0].pid) for line in fault.kernel]
        )
        texts = [
            _peer_text(error.peers, rank, facts, tp_size)
            if error.peers and rank is not ranks[0]
            else rank_text(error, phase, rank.number, tp_size, rank.pid, facts)
            for rank in ranks
        ]
        if fault.interleave:
            _in_turns(ranks, texts)
        else:
            for rank, text in zip(ranks, texts, strict=True):
                rank.write(text)
        if aborts:
            first = ranks[0]
            first.end(abort=True)
            code = error.exit_code if error.exit_code < 0 else -int(signal.SIGABRT)
            tell_parent(first.number, first.pid, code)


def _peer_text(peers: Sequence[str], rank: Rank, facts: Mapping[str, Any], tp_size: int) -> str:
    return fill("".join(f"{line}\n" for line in peers), facts, rank.number, tp_size, rank.pid)


def _in_turns(ranks: Sequence[Rank], texts: Sequence[str]) -> None:
    """The ranks' lines, one of each in turn; the first rank is two lines ahead."""
    queues = [text.splitlines(keepends=True) for text in texts]
    for line in queues[0][:2]:
        ranks[0].write(line)
    queues[0] = queues[0][2:]
    for row in itertools.zip_longest(*queues):
        for rank, line in zip(ranks, row, strict=True):
            if line is not None:
                rank.write(line)
