"""What to run next: pure functions of a plan and of what became of its trials so far.

``next_step(plan, history, in_flight, host)`` is the door; it can be replayed from ``trials.jsonl``.
"""

from treeline.plan.cells import BAD_STATES, MAX_BACKS, Cell
from treeline.plan.expect import Expected, expected, position, remaining
from treeline.plan.history import History, InFlight, Past
from treeline.plan.limits import Spend, hours_at_work
from treeline.plan.outcome import cells, known_and_open
from treeline.plan.step import (
    NOTHING_KNOWN,
    UNLIMITED,
    Done,
    Out,
    Stop,
    Wait,
    limit_reason,
    next_step,
    open_items,
    out_reason,
    stop_reason,
)

__all__ = [
    "BAD_STATES",
    "MAX_BACKS",
    "NOTHING_KNOWN",
    "UNLIMITED",
    "Cell",
    "Done",
    "Expected",
    "History",
    "InFlight",
    "Out",
    "Past",
    "Spend",
    "Stop",
    "Wait",
    "cells",
    "expected",
    "hours_at_work",
    "known_and_open",
    "limit_reason",
    "next_step",
    "open_items",
    "out_reason",
    "position",
    "remaining",
    "stop_reason",
]
