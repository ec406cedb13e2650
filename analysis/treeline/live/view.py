"""A look at a sweep as lines of a terminal. Nothing is wider than the terminal, so nothing wraps."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from itertools import groupby

from rich.text import Text

from treeline.keys import RestartKey
from treeline.live.state import Flight, State
from treeline.plain import clean
from treeline.plan.cells import CellState
from treeline.plan.story import LEGEND, SYMBOLS
from treeline.progress import duration, verdict_line
from treeline.records import seconds_between, utc_now

_LOOKS: dict[CellState, str] = {
    "good": "bold green",
    "bad": "bold red",
    "mixed": "bold yellow",
    "implied_good": "green",
    "implied_bad": "red",
    "known_bad": "red",
    "unknown": "yellow",
    "open": "dim",
}
_STATUS = {"ok": "green", "void": "yellow"}


def lines(state: State, width: int, height: int, note: str = "") -> list[Text]:
    """Return the whole view, cut to a terminal of so many columns and rows.

    note: a line at the end, such as what an interrupt does.
    """
    head = [_head(state), _progress(state, width)]
    flights = [_flight(one) for one in state.flights] or [Text("no trial under way", "dim")]
    verdicts = [_verdict(state, at) for at in range(len(state.verdicts))]
    tail = [Text(note, "dim")] if note else []
    fixed = len(head) + len(flights) + len(tail) + (len(verdicts) + 1 if verdicts else 0)
    drawn = list(maps(state.cells, width, height - fixed - 1))
    every = [*head, *flights]
    if verdicts:
        every += [Text("last verdicts", "bold"), *verdicts]
    every += [*drawn, *tail]
    return [_cut(line, width) for line in every[: max(1, height - 1)]]


def _cut(line: Text, width: int) -> Text:
    line = line.copy()
    line.no_wrap = True
    line.truncate(max(1, width - 1), overflow="ellipsis")
    return line


def _head(state: State) -> Text:
    text = Text.assemble(("sweep ", "bold"), (state.sweep_id, "bold"), f"  {state.kind}")
    if state.simulated:
        text.append("  simulated timing", "yellow")
    if state.ended:
        text.append(f"  {clean(state.ended)}")
    elif not state.alive:
        text.append("  its controller is gone; run the same command again to go on", "yellow")
    return text


def _progress(state: State, width: int) -> Text:
    total = state.done + state.left
    size = max(8, min(30, width - 58))
    filled = round(size * state.done / total) if total else 0
    text = Text.assemble(("#" * filled, "green"), ("-" * (size - filled), "dim"))
    text.append(f" {far(state)}")
    return text


def far(state: State) -> str:
    """How far it is: trials done and left, time spent and left."""
    left = "time left not known yet" if state.left_s is None else f"about {duration(state.left_s)} left"
    if not state.left:
        left = "none left"
    return f"{state.done} done, {state.left} left; {duration(state.elapsed_s)} so far, {left}"


def _flight(flight: Flight) -> Text:
    text = Text.assemble(("> ", "cyan"), (f"[{clean(flight.host)}] ", "bold"), flight.label)
    text.append(f" {flight.purpose} {duration(flight.elapsed_s)}")
    if flight.step is not None:
        here = duration(seconds_between(flight.step.since, utc_now()))
        text.append(f": {clean(flight.step.task)} ({here})", "cyan")
    return text


def _verdict(state: State, at: int) -> Text:
    line = state.verdicts[at]
    return Text("  " + clean(verdict_line(line)), _STATUS.get(line.status, "red"))


def maps(cells: Mapping[RestartKey, CellState], width: int, room: int) -> Iterable[Text]:
    """Budget x maxreq of every slice as characters, as many slices as there is room for, and their legend."""
    keys = sorted(cells, key=lambda key: (key.slice_label, key.budget, key.maxreq))
    keys = [key for key in keys if key.speculative]
    legend = [Text(line, "dim") for line in textwrap.wrap(LEGEND, max(width - 1, 20))]
    drawn: list[Text] = []
    for name, group in groupby(keys, key=lambda key: key.slice_label):
        of_slice = list(group)
        limits = sorted({key.maxreq for key in of_slice})
        budgets = sorted({key.budget for key in of_slice}, reverse=True)
        block = [Text.assemble((name, "bold"), ("   rows: budget, columns: maxreq", "dim"))]
        by_place = {(key.budget, key.maxreq): cells[key] for key in of_slice}
        wide = max(len(str(limit)) for limit in limits) + 1
        for budget in budgets:
            line = Text(f"  {budget:>5} ")
            for limit in limits:
                state = by_place.get((budget, limit))
                symbol, look = (" ", "") if state is None else (SYMBOLS[state], _LOOKS[state])
                line.append(symbol.rjust(wide), look)
            block.append(line)
        block.append(Text("        " + "".join(str(limit).rjust(wide) for limit in limits), "dim"))
        if len(drawn) + len(block) + len(legend) > room:
            break
        drawn += block
    return [*drawn, *legend] if drawn else []
