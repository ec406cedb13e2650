"""Results of a trial's steps, a baseline, and the gates that they give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from treeline.baselines import Answer, Baseline
from treeline.gates import evaluate
from treeline.keys import RestartKey
from treeline.records import Gate
from treeline.steps import Steps

TRIAL = "s-0001"


@dataclass
class Log:
    class_: str = "ok"
    phase: str | None = "serving"
    kind: str = "none"
    first_error: str | None = None
    rank: int | None = None
    captured_bs: int | None = None
    captured_width: int | None = None
    secondary: tuple[str, ...] = ()
    advice: str = ""
    accept_lens: tuple[float, ...] = ()


def point(concurrency: int = 8, **changes: Any) -> dict[str, Any]:
    return {
        "concurrency": concurrency,
        "context": None,
        "complete": True,
        "requests": 16,
        "failed": 0,
        "completion_tokens": 2000,
        "verify_calls": 500,
        "output_tok_s": 100.0,
        "prefix_cache_share": 0.0,
        "al_windows": [[400, 100]] * 5,
        "garble": garble(),
    } | changes


def garble(flagged: int = 0, of: int = 16, loops: int = 0, reasons: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "flagged": flagged,
        "of": of,
        "not_available": 0,
        "pool": {
            "verdict": "flagged" if reasons else "clean",
            "reasons": list(reasons),
            "scores": dict.fromkeys(reasons, 0.001),
        },
        "looping": {"count": loops, "of": of},
    }


def stored(right: str = "++++++++", **changes: Any) -> Baseline:
    """A baseline that answered the canaries of this file right or wrong."""
    values: dict[str, Any] = {
        "hardware_class": "8x B300",
        "engine_build": "0.5.23",
        "model": "kimi",
        "trial_id": "base-0001",
        "sweep_id": "base",
        "host": "gpu1",
        "at": "2026-01-01T00:00:00.000Z",
        "key": RestartKey(budget=0, topk=1, maxreq=8, block_size=8, graphs=True),
        "canaries": {f"c{n}": Answer(expect="x", busiest=mark == "+") for n, mark in enumerate(right)},
    }
    return Baseline(**{**values, **changes})


def canaries(single: str = "++++++++", busiest: str = "++++++++") -> list[dict[str, Any]]:
    return [
        {"id": f"c{n}", "phase": phase, "ok": mark == "+", "got": "x", "expect": "x"}
        for phase, marks in (("single", single), ("busiest", busiest))
        for n, mark in enumerate(marks)
    ]


def gates(
    load: dict[str, Any] | None = None,
    ready: dict[str, Any] | None = None,
    log: Log | None = None,
    asked: int = 1,
    **more: Any,
) -> dict[str, Gate]:
    steps = Steps.of(
        {
            "begin": {"previous_invocation_id": "old"},
            "ready": {
                "outcome": "ready",
                "invocation_id": "new",
                "mismatches": [],
                "captured_width": 9,
                "proof": {"trial_id_in_env": TRIAL, "expected_width": 9},
            }
            | (ready or {}),
            "load": {"outcome": "done", "canaries": canaries(), "points": [point()]} | (load or {}),
        }
    )
    found = evaluate(steps, log or Log(), trial_id=TRIAL, points_asked=asked, **more)
    assert len({gate.name for gate in found}) == len(found)
    return {gate.name: gate for gate in found}
