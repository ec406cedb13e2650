"""What the classifier says about one log."""

from __future__ import annotations

from typing import Literal

import msgspec


class Silence(msgspec.Struct, frozen=True):
    """Something wrong that no error line tells."""

    what: Literal["speculation_off", "acceptance_floor", "acceptance_collapse", "width", "no_tokens"]
    detail: str
    """What was seen, with its numbers."""


class Remark(msgspec.Struct, frozen=True):
    """A line that had to do with a class, and what became of it."""

    class_: str = msgspec.field(name="class")
    taken: bool
    """Whether the line is evidence of this class; else `why` says why it is not."""
    why: str
    line: str
    line_no: int | None


class LogVerdict(msgspec.Struct, kw_only=True, frozen=True):
    """The first cause of a failure as the log of one service life tells it.

    A verdict is about the log alone: the trial's status also depends on gates, exit codes and canaries,
    and is decided elsewhere.
    """

    class_: str = msgspec.field(name="class")
    """Catalogue id of the first cause, or `ok` (alive, nothing wrong), or `unknown` (no class fits)."""
    phase: str | None
    """Engine phase in which the first cause arose; for `ok` the phase reached. None: the text has none."""
    kind: str
    """What the failure may decide: config, node, transient, setup or none."""
    confidence: str
    """`high`: a specific error line; `low`: a wrapper, watchdog or NCCL line, or an inference."""
    first_error: str | None
    """The evidence line without control characters, at most 500 characters; None: there is none."""
    first_error_line_no: int | None
    """1-based number, in the source, of the line (the journal entry) that carries the evidence."""
    rank: int | None
    """Tensor-parallel rank of the process that printed the evidence, where the log tells it."""
    captured_bs: int | None
    """Batch size of the last capture progress bar before a failure in graph capture, else None."""
    captured_width: int | None
    """Verify width in tokens per request that the engine captured graphs for, where it prints one."""
    secondary: tuple[str, ...]
    """Other classes seen in the same service life, in catalogue order."""
    advice: str
    """What to try next, one sentence; empty for `ok`."""
    references: tuple[str, ...]
    """Public reports of the same failure."""
    accept_lens: tuple[float, ...]
    """`accept len` of the decode lines, in order; empty without speculation."""
    reached_phase: str | None
    """The last phase that the service reached."""
    lines: int
    """Lines of this service life that were read."""
    lost_lines: int
    """Lines known to be missing: suppressed, or not stored in a form that can be read."""
    rows: int | None = None
    """captured_bs x captured_width, where both are known."""
    silent: tuple[Silence, ...] = ()
    """What is wrong without an error line, whatever the class."""
    remarks: tuple[Remark, ...] = ()
    """Which lines decided and which were rejected and why; filled when asked for."""
