"""How many requests a found service is working on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Optional

from . import http

TIMEOUT_S = 5.0
_SERIES = re.compile(r"^sglang:num_(running|queue)_reqs(?:\{[^}]*\})?\s+([0-9.eE+-]+)", re.MULTILINE)
_RUNNING_KEYS = ("num_running_reqs", "num_reqs")
_QUEUED_KEYS = ("num_waiting_reqs", "num_queue_reqs")


@dataclass(frozen=True)
class Traffic:
    """Requests in work and in the queue; both None when the service does not tell, and `note` says why."""

    running: Optional[int]
    queued: Optional[int]
    note: Optional[str] = None

    @property
    def known(self) -> bool:
        """Whether the service told."""
        return self.running is not None

    @property
    def busy(self) -> bool:
        """Whether anybody would notice a stop."""
        return bool(self.running) or bool(self.queued)


def ask(url: str, api_key: Optional[str] = None) -> Traffic:
    """Ask the service at `url`: its /metrics, else its /get_load."""
    try:
        answer = http.request(url + "/metrics", TIMEOUT_S, api_key=api_key)
        counted = parse_metrics(answer.body) if answer.status == 200 else None
        if counted is not None:
            return counted
        counted = parse_load(http.get_json(url + "/get_load", TIMEOUT_S, api_key))
        return counted or Traffic(None, None, "%s/get_load has no request counts" % url)
    except http.HttpError as error:
        return Traffic(None, None, str(error))


def parse_metrics(text: str) -> Optional[Traffic]:
    """From Prometheus text: the sums of the running and queue gauges; None where they are absent.

    Ranks may report the same requests each; for traffic only zero or not matters.
    """
    sums: dict[str, float] = {}
    for kind, value in _SERIES.findall(text):
        try:
            sums[kind] = sums.get(kind, 0.0) + float(value)
        except ValueError:
            continue
    if "running" not in sums:
        return None
    return Traffic(round(sums["running"]), round(sums.get("queue", 0.0)))


def parse_load(value: Any) -> Optional[Traffic]:
    """From a /get_load answer: one object per rank, or an object with the list in `loads`; None for neither.

    Its `num_reqs` counts the waiting requests too.
    """
    ranks = value.get("loads", [value]) if isinstance(value, dict) else value
    if not isinstance(ranks, list) or not all(isinstance(rank, dict) for rank in ranks):
        return None
    running = [
        int(rank[key]) for rank in ranks for key in _RUNNING_KEYS if isinstance(rank.get(key), (int, float))
    ]
    queued = [
        int(rank[key]) for rank in ranks for key in _QUEUED_KEYS if isinstance(rank.get(key), (int, float))
    ]
    return Traffic(sum(running), sum(queued)) if running else None
