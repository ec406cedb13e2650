"""What to run next: pure functions of a plan and of what became of its trials so far.

``next_step(plan, history, in_flight, host)`` is the door; it can be replayed from ``trials.jsonl``.
"""

from treeline.plan.cells import MAX_BACKS, Cell, cells
from treeline.plan.history import History, InFlight, Past, position
from treeline.plan.step import Done, Out, Stop, Wait, next_step, open_items, out_reason, stop_reason

__all__ = [
    "MAX_BACKS",
    "Cell",
    "Done",
    "History",
    "InFlight",
    "Out",
    "Past",
    "Stop",
    "Wait",
    "cells",
    "next_step",
    "open_items",
    "out_reason",
    "position",
    "stop_reason",
]
