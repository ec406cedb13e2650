"""The lines by which an engine's log tells where in its life it is, and which graphs it captures.

Both readers of such a log go by these: the target while it waits for a trial, the controller when it looks
for the first cause. Wordings of SGLang 0.4.0 to 0.5.23; a phase begins with its marker.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

PHASES = (
    "args",
    "dist_init",
    "weights",
    "kv_pool",
    "graph_capture",
    "http",
    "warmup",
    "serving",
    "shutdown",
)
"""In order of a life; `args` is what comes before the first marker."""

# Loading and capture repeat (draft model, several ranks): each time counts.
LOADING = (
    ("Init torch distributed begin", "dist_init"),
    ("Init torch distributed ends", "dist_init"),
    ("sglang is using nccl", "dist_init"),
    ("Load weight begin", "weights"),
    ("Load weight end", "kv_pool"),
)
CAPTURE_BEGIN = " graph begin"
"""Part of every line that `begins_capture` may say yes to."""
# From the first of these on the service only moves forward.
SERVING = (
    ("max_total_num_tokens=", "http"),
    ("Started server process", "http"),
    ("model_info HTTP/1.1", "warmup"),
    ("The server is fired up and ready", "serving"),
    ("SIGTERM received", "shutdown"),
    ("Gracefully exiting", "shutdown"),
)
DECODE = ("Decode batch", "serving")
STOPPING = ("Stopping ", "shutdown")
"""How systemd's own line begins when it stops the unit."""
WIDTH = "num_tokens_per_"
"""Part of every line that `captured_width` may find a width in."""

_BEGIN = r"Capture (?P<what>(?:\w+ )*)cuda graph begin"
_CAPTURE = re.compile(_BEGIN, re.IGNORECASE)
_WIDTH = re.compile(_BEGIN + r"[^\n]*?\b" + WIDTH + r"(?:req|bs)=(?P<width>\d+)", re.IGNORECASE)
# Graphs that are not the target's decode step.
_OTHER_GRAPHS = frozenset({"draft", "prefill", "piecewise", "extend"})
_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|[@-Z\\-_])")


class Width(NamedTuple):
    """Tokens per request of a captured graph, and whether the line says that it is a verify graph."""

    tokens: int
    verify: bool


def begins_capture(text: str) -> bool:
    """Whether a line says that a graph capture begins, of the target or of the draft."""
    return CAPTURE_BEGIN in text and _CAPTURE.search(text) is not None


def captured_width(text: str) -> Optional[Width]:
    """The width of the target's decode or verify graph, where a line tells it.

    Graphs of the draft and of prefill are none of these.
    """
    found = _WIDTH.search(plain_text(text)) if WIDTH in text else None
    if found is None:
        return None
    what = set(found["what"].lower().split())
    return None if what & _OTHER_GRAPHS else Width(int(found["width"]), "verify" in what)


def phase_begun(text: str, by_systemd: bool = False) -> Optional[str]:
    """The phase that begins with a message, None where it is no marker."""
    if by_systemd:
        return STOPPING[1] if text.startswith(STOPPING[0]) else None
    plain = plain_text(text)
    for marker, phase in (*SERVING[::-1], DECODE, *LOADING[::-1]):
        if marker in plain:
            return phase
    return "graph_capture" if begins_capture(plain) else None


def plain_text(text: str) -> str:
    """A message without the colours that a logger may have put into it."""
    return _ANSI.sub("", text) if "\x1b" in text else text


def moves(phase: str, following: str) -> bool:
    """Whether a marker of `following` takes a service on that is in `phase`.

    Once the scheduler is up, a late line of another rank does not take the service back.
    """
    late = PHASES.index(phase) >= PHASES.index("http")
    return not (late and PHASES.index(following) <= PHASES.index(phase))
