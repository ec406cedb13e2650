"""The scheduler: waiting and running requests, simulated steps, log lines and counters.

Real work (drafting, verifying, text) is done first; the rest of the simulated step is slept. Work that takes
longer than its simulated step is an overrun: the numbers are then the machine's, not the simulation's, and
/server_info says so.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from .batch_engine import BatchEngine
from .messages import Abort, Flush, Flushed, Generate, Step
from .prefix_cache import PrefixCache
from .profiles import Fault, Timing
from .requests import Request
from .server_args import ServerArgs

_log = logging.getLogger(__name__)

_CATCH_UP_S = 0.005  # a late wake-up may shorten the next sleep by this much, to keep pace


class Scheduler:
    """Runs steps. ``send`` delivers messages; ``wait_until`` sleeps to a monotonic time, taking messages."""

    def __init__(
        self,
        args: ServerArgs,
        engine: BatchEngine,
        timing: Timing,
        fault: Fault | None,
        max_total_num_tokens: int,
        send: Callable[[object], None],
        wait_until: Callable[[float], None],
    ) -> None:
        self._args = args
        self._engine = engine
        self._timing = timing
        self._max_tokens = max_total_num_tokens
        self._send = send
        self._wait_until = wait_until
        self._garbled = fault is not None and fault.kind == "garbled"
        self._speculating = args.speculative and not (fault is not None and fault.kind == "spec_off")
        self._sizes = args.capture_sizes
        self._maxreq = int(args["max_running_requests"])
        self._scale = float(args["decode_time_scale"])
        self._waiting: deque[Request] = deque()
        self._running: list[Request] = []
        self._cache = PrefixCache(enabled=not args["disable_radix_cache"])
        self._arrived = 0
        self._deadline = 0.0
        self._work_began = 0.0
        self.finished = 0
        self.simulated = {"steps": 0, "simulated_s": 0.0, "compute_s": 0.0, "overrun_s": 0.0}
        self._totals = {"generation_tokens": 0, "prompt_tokens": 0, "cached_tokens": 0, "verify_calls": 0}
        self._gauges: dict[str, Any] = {"gen_throughput": 0.0, "is_cuda_graph": 0}
        self._interval = _Interval()
        self._lifetime = _Interval()

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self._running)

    def take(self, message: object) -> None:
        """Handle one message of the parent."""
        if isinstance(message, Generate):
            seed = int(self._args["random_seed"]) + self._arrived
            self._arrived += 1
            self._waiting.append(Request(message, self._engine.tokenizer, self._args.block_size, seed))
        elif isinstance(message, Abort):
            for request in [*self._waiting, *self._running]:
                if request.rid == message.rid:
                    request.abort()
            self._waiting = deque(request for request in self._waiting if request.finish is None)
        elif isinstance(message, Flush):
            idle = not self.busy
            if idle:
                self._cache.clear()
            self._send(Flushed(idle))

    def resume(self) -> None:
        """Call when work arrives after an idle time: the pace starts anew."""
        self._work_began = self._deadline = time.monotonic()
        self._interval.restart(self._work_began)

    def run_once(self) -> None:
        """One prefill, if there is room and demand, and one decode step."""
        room = self._maxreq - len(self._running)
        if self._waiting and room > 0:
            self._prefill(room)
        self._running = [request for request in self._running if request.finish is None]
        if self._running:
            self._decode()
        elif not self._waiting:
            self._send(Step([], self.state()))

    def _prefill(self, room: int) -> None:
        batch = [self._waiting.popleft() for _ in range(min(room, len(self._waiting)))]
        fresh = cached = 0
        for request in batch:
            request.cached_tokens = self._cache.match(request.context)
            self._cache.insert(request.context)
            cached += request.cached_tokens
            fresh += request.prompt_tokens - request.cached_tokens
        _log.info(
            "Prefill batch, #new-seq: %d, #new-token: %d, #cached-token: %d, token usage: %.2f, "
            "#running-req: %d, #queue-req: %d",
            len(batch),
            fresh,
            cached,
            self._usage(),
            len(self._running),
            len(self._waiting),
        )
        for request in batch:
            request.extend(self._engine.first_token(request))
        self._totals["prompt_tokens"] += fresh + cached
        self._totals["cached_tokens"] += cached
        self._totals["generation_tokens"] += len(batch)
        self._interval.tokens += len(batch)
        self._running += batch
        self._end_step(self._timing.prefill_s(fresh), batch)

    def _decode(self) -> None:
        batch = self._running
        padded = next((size for size in self._sizes if size >= len(batch)), None)
        graph = padded is not None
        step = self._engine.stale_step if self._garbled and graph else self._engine.step
        for request in batch:
            before = request.completion_tokens
            tokens = step(request)
            request.extend(tokens)
            gained = request.completion_tokens - before
            self._totals["generation_tokens"] += gained
            self._interval.tokens += gained
            if self._speculating:
                self._interval.accepted += len(tokens)
                self._interval.verify_calls += 1
        if self._speculating:
            self._totals["verify_calls"] += len(batch)
        width = self._args.width if self._speculating else 1
        rows = (padded or len(batch)) * width
        self._gauges["is_cuda_graph"] = int(graph)
        self._interval.steps += 1
        if self._interval.steps >= self._args["decode_log_interval"]:
            self._log_decode(graph)
        self._end_step(self._timing.step_s(rows, self._speculating, graph), batch)

    def _end_step(self, simulated: float, batch: list[Request]) -> None:
        simulated *= self._scale
        computed = time.monotonic()
        compute = computed - self._work_began
        numbers = self.simulated
        numbers["steps"] += 1
        numbers["simulated_s"] += simulated
        numbers["compute_s"] += compute
        numbers["overrun_s"] += max(0.0, compute - simulated)
        self._deadline = max(self._deadline, computed - compute - _CATCH_UP_S) + simulated
        self._wait_until(self._deadline)
        # What follows (sending, taking messages in) belongs to the next step's real work.
        self._work_began = time.monotonic()
        progress = [request.progress() for request in batch]
        for request in batch:
            if request.finish is not None:
                self.finished += 1
                self._cache.insert(request.context)
        self._running = [request for request in self._running if request.finish is None]
        self._send(Step(progress, self.state()))

    def _log_decode(self, graph: bool) -> None:
        now = time.monotonic()
        interval = self._interval
        throughput = interval.tokens / max(1e-9, now - interval.began)
        self._gauges["gen_throughput"] = throughput
        accept = ""
        if self._speculating and interval.verify_calls:
            self._lifetime.accepted += interval.accepted
            self._lifetime.verify_calls += interval.verify_calls
            length, rate = interval.accept(self._args.block_size)
            self._gauges["spec_accept_length"], self._gauges["spec_accept_rate"] = length, rate
            accept = f"accept len: {length:.2f}, accept rate: {rate:.2f}, "
        _log.info(
            "Decode batch, #running-req: %d, #token: %d, token usage: %.2f, %scuda graph: %s, "
            "gen throughput (token/s): %.2f, #queue-req: %d",
            len(self._running),
            self._tokens(),
            self._usage(),
            accept,
            graph,
            throughput,
            len(self._waiting),
        )
        interval.restart(now)

    def _tokens(self) -> int:
        return sum(len(request.context) for request in self._running)

    def _usage(self) -> float:
        return self._tokens() / self._max_tokens

    def state(self) -> dict[str, Any]:
        """Counters and gauges for /server_info, /get_load and /metrics."""
        out = {
            "running": len(self._running),
            "waiting": len(self._waiting),
            "tokens": self._tokens(),
            "totals": dict(self._totals),
            "gauges": {**self._gauges, "token_usage": self._usage()},
            "simulated": dict(self.simulated),
        }
        if self._lifetime.verify_calls:
            out["avg_spec_accept_length"] = self._lifetime.accept(self._args.block_size)[0]
        return out


class _Interval:
    """What happened since the last 'Decode batch' line."""

    def __init__(self) -> None:
        self.restart(time.monotonic())

    def restart(self, now: float) -> None:
        self.began = now
        self.steps = self.tokens = self.accepted = self.verify_calls = 0

    def accept(self, block_size: int) -> tuple[float, float]:
        """Mean tokens per verify call, bonus included, and accepted drafts per draft position."""
        length = self.accepted / self.verify_calls
        return length, (length - 1.0) / (block_size - 1)
