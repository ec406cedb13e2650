"""Change a log in ways that must not change its class: other order, noise, colours, a cut."""

from __future__ import annotations

import json
import random
import re
from typing import Any

_PREFIX = re.compile(rb"(?P<head>\S+ \S+ (?P<ident>[^\s\[:]+)(?:\[(?P<pid>\d+)\])?: ?)")
_RANK = re.compile(rb" TP\d+\]|\[rank\d+\]")
NOISE = (
    '[2026-03-04 10:00:09] INFO:     10.1.2.3:40122 - "GET /health HTTP/1.1" 200 OK',
    "[2026-03-04 10:00:09 TP0] Memory headroom after graph capture is 14.10 GB; room for 3 more adapters.",
    "[2026-03-04 10:00:09] Ignore import error when loading sglang.srt.models.x: No module named 'einops'",
    "[2026-03-04 10:00:09] Watchdog TokenizerManager initialized.",
    "1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7) if you see an OOM problem",
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
    '  File "/opt/sgl/lib/python3.12/site-packages/torch/nn/modules/module.py", line 1773, in _call_impl',
    "Loading safetensors checkpoint shards:  50% Completed | 15/30 [00:21<00:20,  1.41s/it]",
    "",
)
_COLOURS = (b"\x1b[31m", b"\x1b[0m", b"\x1b[1;33m", b"\x1b[38;5;208m", b"\x1b[K")


class Log:
    """Lines of a log, in text or in JSON."""

    def __init__(self, content: bytes) -> None:
        self.lines = content.split(b"\n")
        if not self.lines[-1]:
            self.lines.pop()
        self.json = self.lines[0].startswith(b"{")

    def process(self, line: bytes) -> str | None:
        """The process that wrote a line; None for systemd, the kernel, and lines without a prefix."""
        if self.json:
            fields = json.loads(line)
            return None if fields.get("_PID") in (None, "1") else str(fields["_PID"])
        found = _PREFIX.match(line)
        if found is None or found["pid"] in (None, b"1"):
            return None
        return found["pid"].decode()

    def ranks(self) -> set[str]:
        """The processes whose lines carry a rank."""
        found = {self.process(line) for line in self.lines if _RANK.search(line)}
        return {pid for pid in found if pid is not None}


def reordered(log: Log, chosen: random.Random) -> list[bytes]:
    """The ranks' lines in another order, those of each rank in theirs; all others stay in place."""
    ranks = log.ranks()
    lines = list(log.lines)
    begin = 0
    while begin < len(lines):
        end = begin
        while end < len(lines) and log.process(lines[end]) in ranks:
            end += 1
        queues: dict[Any, list[bytes]] = {}
        for line in lines[begin:end]:
            queues.setdefault(log.process(line), []).append(line)
        for place in range(begin, end):
            pid = chosen.choice([pid for pid, queue in queues.items() if queue])
            lines[place] = queues[pid].pop(0)
        begin = end + 1
    return lines


def with_noise(log: Log, chosen: random.Random, count: int) -> list[bytes]:
    """The log with harmless lines of its own processes in between."""
    lines = list(log.lines)
    own = [line for line in log.lines if log.process(line) is not None]
    for _ in range(count if own else 0):
        lines.insert(
            chosen.randrange(1, len(lines) + 1), _like(log, chosen.choice(own), chosen.choice(NOISE))
        )
    return lines


def _like(log: Log, line: bytes, message: str) -> bytes:
    if log.json:
        fields = json.loads(line)
        fields.pop("_LINE_BREAK", None)
        # A process of its own: a line between the pieces of a cut one would be a piece of it.
        return json.dumps({**fields, "_PID": "77777", "MESSAGE": message}).encode()
    found = _PREFIX.match(line)
    assert found is not None
    return found["head"] + message.encode()


def recoloured(log: Log, chosen: random.Random) -> list[bytes]:
    """The log with colour codes in the messages; in JSON such a message is a byte array."""
    lines = []
    for line in log.lines:
        if log.process(line) is None or chosen.random() < 0.5:
            lines.append(line)
        elif log.json:
            fields = json.loads(line)
            if isinstance(fields.get("MESSAGE"), str):
                fields["MESSAGE"] = list(_painted(fields["MESSAGE"].encode(), chosen))
            lines.append(json.dumps(fields).encode())
        else:
            found = _PREFIX.match(line)
            assert found is not None
            lines.append(found["head"] + _painted(line[found.end() :], chosen))
    return lines


def _painted(message: bytes, chosen: random.Random) -> bytes:
    for _ in range(chosen.randrange(1, 4)):
        place = chosen.randrange(len(message) + 1)
        inside = any(place - 12 < found.start() < place for found in re.finditer(b"\x1b", message))
        if not inside:
            message = message[:place] + chosen.choice(_COLOURS) + message[place:]
    return message
