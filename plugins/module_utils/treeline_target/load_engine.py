"""What the engine says about itself while it is loaded: who it is, how busy, how honest its timing is."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Mapping, Optional

from . import traffic
from .load_client import Client

POLL_S = 0.25


@dataclass(frozen=True)
class Facts:
    """Name (`sglang`, `reference`), whether its times are simulated, and the seconds behind that so far.

    `overrun_s` is by how much real computing exceeded the simulated step times; None for real engines.
    `known`: the engine gave an account of itself.
    """

    name: str
    simulated: bool
    simulated_s: Optional[float]
    overrun_s: Optional[float]
    model: str
    incremental: bool
    speculative: bool = False
    known: bool = True


def facts(server_info: Mapping[str, Any]) -> Facts:
    """Facts from a /server_info answer; the states of several ranks are added up, empty ones left out."""
    states = server_info.get("internal_states")
    timings = [
        state["simulated"]
        for state in (states if isinstance(states, list) else [])
        if isinstance(state, Mapping) and isinstance(state.get("simulated"), Mapping)
    ]
    model = server_info.get("served_model_name") or server_info.get("model_path") or "default"
    return Facts(
        name=str(server_info.get("engine") or "sglang"),
        simulated=bool(timings) or bool(server_info.get("simulated_timing")),
        simulated_s=_total(timings, "simulated_s"),
        overrun_s=_total(timings, "overrun_s"),
        model=str(model),
        incremental=bool(server_info.get("incremental_streaming_output") or server_info.get("stream_output")),
        speculative=bool(server_info.get("speculative_algorithm")),
        known=bool(server_info),
    )


def _total(timings: list[Mapping[str, Any]], name: str) -> Optional[float]:
    values = [float(one[name]) for one in timings if isinstance(one.get(name), (int, float))]
    return sum(values) if values else None


def overrun_share(before: Facts, after: Facts) -> Optional[float]:
    """Overrun / simulated seconds between two looks; None for real engines, or when no step was simulated."""
    if None in (before.simulated_s, before.overrun_s, after.simulated_s, after.overrun_s):
        return None
    simulated = (after.simulated_s or 0.0) - (before.simulated_s or 0.0)
    overrun = (after.overrun_s or 0.0) - (before.overrun_s or 0.0)
    return overrun / simulated if simulated > 0 else None


def running_requests(metrics: str) -> Optional[int]:
    """Requests that the engine is running, by its metrics page, all ranks together; None if not there."""
    counted = traffic.parse_metrics(metrics)
    return counted.running if counted is not None else None


class PeakWatch:
    """Polls the metrics page while a block runs; `peak` is the highest number of running requests seen."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.peak: Optional[int] = None

    async def __aenter__(self) -> PeakWatch:
        self._task = asyncio.ensure_future(self._poll())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _poll(self) -> None:
        while True:
            page = await self._client.metrics()
            if page is None:
                return
            running = running_requests(page)
            if running:  # none running is what is seen between requests, and no peak
                self.peak = max(self.peak or 0, running)
            await asyncio.sleep(POLL_S)
