"""One data-parallel rank: its queue, its batch, its prefix cache and its log lines."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from .batch_engine import BatchEngine
from .corrupt import Corruption
from .prefix_cache import PrefixCache
from .requests import Request
from .server_args import ServerArgs

_log = logging.getLogger(__name__)


class Interval:
    """What happened since the last 'Decode batch' line, or in a whole life."""

    def __init__(self) -> None:
        self.restart(time.monotonic())

    def restart(self, now: float) -> None:
        """Begin anew."""
        self.began = now
        self.steps = self.tokens = self.accepted = self.verify_calls = 0

    def accept(self, block_size: int) -> tuple[float, float]:
        """Mean tokens per verify call, bonus included, and accepted drafts per draft position."""
        length = self.accepted / self.verify_calls
        return length, (length - 1.0) / (block_size - 1)


class Lane:
    """Requests of one rank. The scheduler gives it its turns and keeps the time."""

    def __init__(
        self,
        number: int,
        args: ServerArgs,
        engine: BatchEngine,
        corruption: Corruption | None,
        speculating: bool,
        max_tokens: int,
        stocked: float = 0.0,
    ) -> None:
        self._args = args
        self._engine = engine
        self._corruption = corruption
        self._speculating = speculating
        self._max_tokens = max_tokens
        self._sizes = args.capture_sizes
        self._maxreq = int(args["max_running_requests"])
        ranks = (f" DP{number}" if args.dp_size > 1 else "") + (" TP0" if args["tp_size"] > 1 else "")
        self._extra = {"ranks": ranks}
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.cache = PrefixCache(enabled=not args["disable_radix_cache"], stocked=stocked)
        self._totals = {"generation_tokens": 0, "prompt_tokens": 0, "cached_tokens": 0, "verify_calls": 0}
        self._totals["cuda_graph_passes"] = 0
        self._gauges: dict[str, Any] = {"gen_throughput": 0.0, "is_cuda_graph": 0}
        self.interval = Interval()
        self._lifetime = Interval()

    @property
    def busy(self) -> bool:
        """Whether anything waits or runs."""
        return bool(self.waiting or self.running)

    def abort(self, rid: str) -> None:
        """End a request without an answer."""
        for request in [*self.waiting, *self.running]:
            if request.rid == rid:
                request.abort()
        self.waiting = deque(request for request in self.waiting if request.finish is None)

    def drop_finished(self) -> None:
        """Keep only what still runs."""
        self.running = [request for request in self.running if request.finish is None]

    def prefill(self) -> tuple[list[Request], int]:
        """Take waiting requests in while there is room: (those requests, their new tokens)."""
        room = min(self._maxreq - len(self.running), len(self.waiting))
        batch = [self.waiting.popleft() for _ in range(room)]
        if not batch:
            return [], 0
        fresh = cached = 0
        for request in batch:
            request.cached_tokens = self.cache.match(request.context)
            self.cache.insert(request.context)
            cached += request.cached_tokens
            fresh += request.prompt_tokens - request.cached_tokens
        _log.info(
            "Prefill batch, #new-seq: %d, #new-token: %d, #cached-token: %d, token usage: %.2f, "
            "#running-req: %d, #queue-req: %d",
            len(batch),
            fresh,
            cached,
            self.tokens() / self._max_tokens,
            len(self.running),
            len(self.waiting),
            extra=self._extra,
        )
        for request in batch:
            self._take(request, self._engine.first_token(request), len(batch))
        self._totals["prompt_tokens"] += fresh + cached
        self._totals["cached_tokens"] += cached
        self._totals["generation_tokens"] += len(batch)
        self.interval.tokens += len(batch)
        self.running += batch
        return batch, fresh

    def decode(self) -> tuple[int, bool]:
        """One step of every running request: (rows, whether a graph was replayed)."""
        batch = self.running
        padded = next((size for size in self._sizes if size >= len(batch)), None)
        graph = padded is not None
        step: Callable[[Request], list[int]] = self._engine.step
        if self._corruption is not None:
            step = self._corruption.step(self._engine, graph)
        gained = accepted = 0
        for request in batch:
            before = request.completion_tokens
            tokens = step(request)
            self._take(request, tokens, len(batch))
            gained += request.completion_tokens - before
            accepted += len(tokens)
        self._totals["generation_tokens"] += gained
        self._totals["cuda_graph_passes"] += graph
        self.interval.tokens += gained
        if self._speculating:
            self.interval.accepted += accepted
            self.interval.verify_calls += len(batch)
            self._totals["verify_calls"] += len(batch)
        self._gauges["is_cuda_graph"] = int(graph)
        self.interval.steps += 1
        if self.interval.steps >= self._args["decode_log_interval"]:
            self._log_decode(graph)
        width = self._args.width if self._speculating else 1
        return (padded or len(batch)) * width, graph

    def _take(self, request: Request, tokens: list[int], batch: int) -> None:
        if self._corruption is None:
            request.extend(tokens)
        else:
            request.extend(tokens, self._corruption.shown(request, tokens, batch))

    def _log_decode(self, graph: bool) -> None:
        now = time.monotonic()
        interval = self.interval
        throughput = interval.tokens / max(1e-9, now - interval.began)
        self._gauges["gen_throughput"] = throughput
        accept = ""
        if self._speculating and interval.verify_calls:
            self._lifetime.accepted += interval.accepted
            self._lifetime.verify_calls += interval.verify_calls
            length, rate = interval.accept(self._args.block_size)
            self._gauges["spec_accept_length"], self._gauges["spec_accept_rate"] = length, rate
            accept = f"accept len: {length:.2f}, accept rate: {rate:.2f}, "
        tokens = self.tokens()
        _log.info(
            "Decode batch, #running-req: %d, #token: %d, token usage: %.2f, %scuda graph: %s, "
            "gen throughput (token/s): %.2f, #queue-req: %d",
            len(self.running),
            tokens,
            tokens / self._max_tokens,
            accept,
            graph,
            throughput,
            len(self.waiting),
            extra=self._extra,
        )
        interval.restart(now)

    def tokens(self) -> int:
        """Tokens of the running requests."""
        return sum(len(request.context) for request in self.running)

    def state(self) -> dict[str, Any]:
        """Counters and gauges for /server_info, /get_load and /metrics."""
        tokens = self.tokens()
        known = self._lifetime.verify_calls > 0
        return {
            "running": len(self.running),
            "waiting": len(self.waiting),
            "tokens": tokens,
            "totals": dict(self._totals),
            "gauges": {**self._gauges, "token_usage": tokens / self._max_tokens},
            "avg_spec_accept_length": self._lifetime.accept(self._args.block_size)[0] if known else None,
        }
