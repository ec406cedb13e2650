"""Looks at what the engine itself counts, before and after a point: what a measurement is checked against.

Only what is needed is kept: the lines of the metrics page that speak of tokens and of verification (they are
read later, on the controller, by prometheus-client's parser), and the acceptance length of every
data-parallel rank, which is a mean over the whole life and may be missing on ranks that were never asked. The
engine's log is read once, at the end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Iterable, Mapping, Optional, Sequence

from . import journal
from .load_client import Client

_NAMES = (
    "generation_tokens",
    "prompt_tokens",
    "cached_tokens",
    "spec_verify_calls",
    "spec_accept_length",
    "num_requests",
    "num_retracted_requests",
)
_KEPT = re.compile(r"^(?:# (?:HELP|TYPE) )?sglang:(?:%s)(?:_total)?[ {]" % "|".join(_NAMES))
_MAX_KEPT = 64 * 1024
_MAX_RANKS = 1024

# The decode lines of all SGLang versions; see also its own log parser, which misses those since 0.5.9.
_DECODE = re.compile(r"Decode batch[.,]?(?: \[\d+\])?[.,]?\s")
_ACCEPT = re.compile(r"(?<!block )\baccept len: (\d+(?:\.\d+)?)")
_RUNNING = re.compile(r"#running-req: (\d+)")
_GRAPH = re.compile(r"\b(?:cuda|cpu|npu|musa) graph: (True|False)")
_MAX_LINES = 100_000


def metrics_kept(page: Optional[str]) -> Optional[str]:
    """The lines of a metrics page that checks need, in the format of the page; None without a page."""
    if page is None:
        return None
    kept: list[str] = []
    size = 0
    for line in page.splitlines():
        if _KEPT.match(line):
            size += len(line) + 1
            if size > _MAX_KEPT:
                break
            kept.append(line)
    return "\n".join(kept) + "\n"


def rank_lengths(server_info: Mapping[str, Any]) -> list[Optional[float]]:
    """The acceptance length that each rank gives for its life so far, None where it gives none."""
    states = server_info.get("internal_states")
    found: list[Optional[float]] = []
    for state in (states if isinstance(states, list) else [])[:_MAX_RANKS]:
        value = state.get("avg_spec_accept_length") if isinstance(state, Mapping) else state
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        found.append(float(value or 0.0) if is_number else None)
    return found


async def metrics(client: Client) -> Optional[str]:
    """A look at the metrics page."""
    return metrics_kept(await client.metrics())


@dataclass(frozen=True)
class DecodeLine:
    """A decode line of the log: when (seconds, CLOCK_MONOTONIC), and what it says; None: it does not say."""

    at: float
    running: int
    accept_len: Optional[float]
    graph: Optional[bool]


def decode_line(at: float, text: str) -> Optional[DecodeLine]:
    """Read one line of the log; None for any other line."""
    if not _DECODE.search(text):
        return None
    running, accepted, graph = _RUNNING.search(text), _ACCEPT.search(text), _GRAPH.search(text)
    return DecodeLine(
        at,
        int(running.group(1)) if running else 0,
        float(accepted.group(1)) if accepted else None,
        graph.group(1) == "True" if graph else None,
    )


def log_lines(invocation_id: str, since_realtime_usec: int, timeout_s: float) -> list[DecodeLine]:
    """Decode lines of one service life since then, oldest first. Raises journal.JournalError."""
    journal.settle(timeout_s / 2)
    query = ("_SYSTEMD_INVOCATION_ID=%s" % invocation_id, journal.since(since_realtime_usec))
    found: list[DecodeLine] = []
    stream = journal.stream(query, timeout_s)
    try:
        for entry in journal.parse(line for line in stream if b"Decode batch" in line):
            at = journal.usec(entry)
            line = decode_line(at / 1e6, journal.message(entry)) if at is not None else None
            if line is not None:
                found.append(line)
                if len(found) >= _MAX_LINES:
                    break
    finally:
        stream.close()
    return found


def log_account(lines: Iterable[DecodeLine], started: float, ended: float) -> Optional[dict[str, Any]]:
    """What the log says about a stretch of time: {lines, al, running_peak, graph_share}; None without a line.

    Each line speaks for the iterations before it, so the first one after the start is left out where there
    are others. The acceptance lengths are weighted by the running requests, as the verify calls behind them
    are.
    """
    within = [line for line in lines if started <= line.at <= ended]
    told = [line for line in within[1:] or within if line.accept_len is not None and line.running]
    if not within:
        return None
    weight = sum(line.running for line in told)
    graphs = [line.graph for line in within if line.graph is not None]
    return {
        "lines": len(within),
        "al": _weighted(told, weight),
        "running_peak": max(line.running for line in within),
        "graph_share": sum(graphs) / len(graphs) if graphs else None,
    }


def _weighted(told: Sequence[DecodeLine], weight: int) -> Optional[float]:
    if not weight:
        return None
    return round(sum((line.accept_len or 0.0) * line.running for line in told) / weight, 4)
