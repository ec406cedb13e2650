"""Start-up phases with SGLang's log lines: distributed init, weights, KV pool, drafter, graph capture."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path

from .drafter import Drafter
from .faults import Fault
from .model import NgramModel
from .profiles import Profile
from .server_args import ServerArgs

_log = logging.getLogger(__name__)


class SimulatedFaultError(Exception):
    """A simulated error in a scheduler process."""

    def __init__(self, fault: Fault, phase: str) -> None:
        super().__init__(f"{fault.kind} in {phase}")
        self.fault = fault
        self.phase = phase


class SimulatedKillError(Exception):
    """The process is to die without a word."""


class Startup:
    """Runs the phases once. ``pause`` sleeps real seconds and returns early only by ending the process."""

    def __init__(self, args: ServerArgs, profile: Profile, pause: Callable[[float], None]) -> None:
        self._args = args
        self._profile = profile
        self._pause = pause
        rule = profile.match(args)
        self._fault = rule.fault if rule else None
        self._free = profile.memory.available_gb

    def run(self) -> tuple[NgramModel, Drafter | None]:
        """Load everything. Raises SimulatedFaultError or SimulatedKillError where the profile says so."""
        times, memory = self._profile.startup, self._profile.memory
        _log.info("sglang is using nccl==2.27.3")
        self._phase("dist_init", times.dist_init_s)
        _log.info(
            "Init torch distributed ends. elapsed=%.2f s, mem usage=1.15 GB", self._scaled(times.dist_init_s)
        )
        self._free -= 1.15
        model = self._weights(times.weights_s, memory.weights_gb)
        self._phase("kv_pool", times.kv_pool_s)
        tokens = memory.max_total_num_tokens
        _log.info(
            "KV Cache is allocated. dtype: torch.bfloat16, #tokens: %d, K size: %.2f GB, V size: 0.00 GB",
            tokens,
            memory.kv_gb,
        )
        self._free -= memory.kv_gb
        _log.info("Memory pool end. avail mem=%.2f GB", self._free)
        drafter = self._drafter(model)
        self._capture()
        self._phase("ready", times.ready_s)
        _log.info(
            "max_total_num_tokens=%d, chunked_prefill_size=%d, max_prefill_tokens=%d, "
            "max_running_requests=%d, context_len=%d, available_gpu_mem=%.2f GB",
            tokens,
            self._args["chunked_prefill_size"],
            self._args["max_prefill_tokens"],
            self._args["max_running_requests"],
            self._args["context_length"],
            self._free,
        )
        return model, drafter

    def _weights(self, seconds: float, size: float) -> NgramModel:
        _log.info("Load weight begin. avail mem=%.2f GB", self._free)
        started = time.monotonic()
        model = NgramModel.load(Path(self._args["model_path"]))
        self._phase("weights", seconds, already=time.monotonic() - started)
        self._free -= size
        _log.info(
            "Load weight end. elapsed=%.2f s, type=TreelineNgramForCausalLM, avail mem=%.2f GB, "
            "mem usage=%.2f GB.",
            time.monotonic() - started,
            self._free,
            size,
        )
        return model

    def _drafter(self, model: NgramModel) -> Drafter | None:
        args, times = self._args, self._profile.startup
        if not args.speculative:
            return None
        size = self._profile.memory.draft_gb
        _log.info("Load weight begin. avail mem=%.2f GB", self._free)
        self._phase("draft_weights", times.draft_weights_s)
        self._free -= size
        _log.info(
            "Load weight end. elapsed=%.2f s, type=TreelineBlockDraftModel, avail mem=%.2f GB, "
            "mem usage=%.2f GB.",
            self._scaled(times.draft_weights_s),
            self._free,
            size,
        )
        self._phase("worker", times.worker_s)
        if args["speculative_algorithm"] == "DDTREE":
            _log.info(
                "Initialized DDTree worker. block_size=%d, tree_budget=%d, max_tree_nodes=%d",
                args.block_size,
                args.budget,
                args.width,
            )
        else:
            _log.info("Initialized DFLASH draft runner. attention_backend=%s", args["attention_backend"])
        if self._fault is not None and self._fault.kind == "spec_off":
            return None
        return Drafter(model, args.block_size, args.budget, args.topk)

    def _capture(self) -> None:
        sizes = self._args.capture_sizes
        if not sizes:
            return
        what = "target verify" if self._args.speculative else "target decode"
        _log.info(
            "Capture %s CUDA graph begin. backend=full, num_tokens_per_req=%d, avail mem=%.2f GB",
            what,
            self._args.width,
            self._free,
        )
        started = time.monotonic()
        used = self._profile.memory.graphs_gb
        try:
            self._capture_each(sizes, used)
        finally:
            sys.stderr.write("\n")
            sys.stderr.flush()
        self._free -= used
        _log.info(
            "Capture %s CUDA graph end. bs=%s, elapsed=%.2f s, mem usage=%.2f GB, avail mem=%.2f GB.",
            what,
            sizes,
            time.monotonic() - started,
            used,
            self._free,
        )

    def _capture_each(self, sizes: list[int], used: float) -> None:
        # Large batches take longer; the shares add up to the whole phase.
        weights = [1.0 + size / sizes[-1] for size in sizes]
        seconds = self._duration("graph_capture", self._profile.startup.capture_s)
        started = time.monotonic()
        for done, size in enumerate(reversed(sizes)):
            free = self._free - used * (done + 1) / len(sizes)
            bar = f"Capturing batches (bs={size} avail_mem={free:.2f} GB)"
            _show_bar(bar, done, len(sizes), time.monotonic() - started)
            fault = self._fault
            strikes = fault is not None and fault.strikes_in("graph_capture")
            if fault is not None and strikes and size <= (fault.captured_bs or size):
                self._pause(seconds * weights[-1 - done] / sum(weights))
                _show_bar(bar, done, len(sizes), time.monotonic() - started)
                self._strike(fault, "graph_capture")
            self._pause(seconds * weights[-1 - done] / sum(weights))
            _show_bar(bar, done + 1, len(sizes), time.monotonic() - started)

    def _strike(self, fault: Fault, phase: str) -> None:
        if fault.crash:
            raise SimulatedFaultError(fault, phase)
        if fault.kind == "killed":
            raise SimulatedKillError
        while fault.kind == "hang":
            self._pause(60.0)

    def _phase(self, name: str, seconds: float, already: float = 0.0) -> None:
        self._pause(max(0.0, self._duration(name, seconds) - already))
        fault = self._fault
        if fault is not None and fault.strikes_in(name):
            self._strike(fault, name)

    def _duration(self, name: str, seconds: float) -> float:
        fault = self._fault
        if fault is not None and fault.kind == "slow" and not fault.after_requests:
            if fault.seconds is not None and fault.phase == name:
                return fault.seconds
            return self._scaled(seconds) * fault.factor
        return self._scaled(seconds)

    def _scaled(self, seconds: float) -> float:
        return seconds * float(self._args["time_scale"])


def _show_bar(text: str, done: int, total: int, elapsed: float) -> None:
    """One state of the progress bar, in tqdm's shape; states of one bar are joined by carriage returns."""
    share = done / total
    filled = int(share * 10)
    rate = f"{elapsed / done:5.2f}s/it" if done else "?it/s"
    left = _clock(elapsed / done * (total - done)) if done else "?"
    blocks = "█" * filled + " " * (10 - filled)
    sys.stderr.write(f"\r{text}: {share:4.0%}|{blocks}| {done}/{total} [{_clock(elapsed)}<{left}, {rate}]")
    sys.stderr.flush()


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"
