"""The scheduler: lanes of requests, simulated steps, counters.

Real work (drafting, verifying, text) is done first; the rest of the simulated step is slept. Work that takes
longer than its simulated step is an overrun: the numbers are then the machine's, not the simulation's, and
/server_info says so. Data-parallel ranks are lanes that step together, as under data-parallel attention.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from .batch_engine import BatchEngine
from .corrupt import Corruption
from .faults import DECODING, Fault
from .hardware import Timing
from .lane import Lane
from .messages import PROBE_PREFIX, Abort, Flush, Flushed, Generate, Step
from .requests import Request
from .server_args import ServerArgs

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
        self._send = send
        self._wait_until = wait_until
        decoding = fault is not None and fault.kind in DECODING
        self._speculating = args.speculative and not (decoding and fault and fault.kind == "spec_off")
        self._corruption = Corruption(fault, engine.nonsense) if decoding and fault else None
        self._slow = (
            fault if fault is not None and fault.kind == "slow" and fault.phase == "serving" else None
        )
        self._counted = fault.when_running if fault is not None else 1
        stocked = fault.share if fault is not None and fault.kind == "warm_cache" else 0.0
        self._scale = float(args["decode_time_scale"])
        self.lanes = [
            Lane(number, args, engine, self._corruption, self._speculating, max_total_num_tokens, stocked)
            for number in range(args.dp_size)
        ]
        self._arrived = 0
        self._deadline = 0.0
        self._work_began = 0.0
        self.finished = 0
        self.simulated = {"steps": 0, "simulated_s": 0.0, "compute_s": 0.0, "overrun_s": 0.0}

    @property
    def busy(self) -> bool:
        """Whether anything waits or runs."""
        return any(lane.busy for lane in self.lanes)

    def take(self, message: object) -> None:
        """Handle one message of the parent."""
        if isinstance(message, Generate):
            seed = int(self._args["random_seed"]) + self._arrived
            probe = message.rid.startswith(PROBE_PREFIX)
            lane = self.lanes[0 if probe else self._arrived % len(self.lanes)]
            self._arrived += not probe
            lane.waiting.append(Request(message, self._engine.tokenizer, self._args.block_size, seed))
        elif isinstance(message, Abort):
            for lane in self.lanes:
                lane.abort(message.rid)
        elif isinstance(message, Flush):
            idle = not self.busy
            if idle:
                for lane in self.lanes:
                    lane.cache.clear()
            self._send(Flushed(idle))

    def resume(self) -> None:
        """Call when work arrives after an idle time: the pace starts anew."""
        self._work_began = self._deadline = time.monotonic()
        for lane in self.lanes:
            lane.interval.restart(self._work_began)

    def run_once(self) -> None:
        """One prefill, where there is room and demand, and one decode step."""
        if self._corruption is not None:
            self._corruption.watch(self.finished)
        filled = [lane.prefill() for lane in self.lanes]
        batch = [request for requests, _ in filled for request in requests]
        if batch:
            self._end_step(
                max(self._timing.prefill_s(fresh) for requests, fresh in filled if requests), batch
            )
        for lane in self.lanes:
            lane.drop_finished()
        if any(lane.running for lane in self.lanes):
            self._decode()
        elif not any(lane.waiting for lane in self.lanes):
            self._send(Step([], self.state()))

    def _decode(self) -> None:
        batch = [request for lane in self.lanes for request in lane.running]
        steps = [lane.decode() for lane in self.lanes if lane.running]
        self._end_step(
            max(self._timing.step_s(rows, self._speculating, graph) for rows, graph in steps), batch
        )

    def _end_step(self, simulated: float, batch: list[Request]) -> None:
        simulated *= self._scale
        if self._slow is not None and self.finished >= (self._slow.after_requests or 0):
            simulated *= self._slow.factor
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
        running = sum(len(lane.running) for lane in self.lanes)
        for lane in self.lanes:
            for request in lane.running:
                if request.finish is not None:
                    self.finished += running >= self._counted and not request.rid.startswith(PROBE_PREFIX)
                    lane.cache.insert(request.context)
            lane.drop_finished()
        self._send(Step(progress, self.state()))

    def state(self) -> dict[str, Any]:
        """Counters and gauges for /server_info, /get_load and /metrics."""
        return {"lanes": [lane.state() for lane in self.lanes], "simulated": dict(self.simulated)}
