"""Rollouts for people: a line each, and the story of one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from treeline.rollout.records import Rollout, RolloutStore


def listing(folders: Sequence[Path]) -> list[str]:
    """One line for each rollout, in the order given. Raises StoreError."""
    return [_line(RolloutStore(folder)) for folder in folders]


def _line(store: RolloutStore) -> str:
    rollout, latest = store.read(), store.latest()
    given = "; ".join(f"{name}: {one.key.short_label}" for name, one in rollout.chosen.items())
    states = [line.state for line in latest.values()]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states)) or "no host yet"
    return f"{rollout.rollout_id}  {rollout.outcome or 'running or broken off'}  {given}  ({counts})"


def story(folder: Path) -> list[str]:
    """What was given to whom and why, wave by wave, and how each host was left. Raises StoreError."""
    store = RolloutStore(folder)
    rollout, latest = store.read(), store.latest()
    lines = [f"rollout {rollout.rollout_id}: {rollout.outcome or 'running or broken off'}"]
    for name, one in rollout.chosen.items():
        simulated = " (simulated timing)" if one.simulated else ""
        lines.append(f"{name}: {one.key.label}, trial {one.trial_id}{simulated}")
        lines += [f"  {text}" for text in one.why]
        lines += [f"  allowed mismatch: {text}" for text in one.mismatches]
    for wave in rollout.waves:
        canary = " (canary)" if wave.canary else ""
        lines.append(f"wave {wave.number}{canary}, {wave.hardware_class}")
        for host in wave.hosts:
            line = latest.get(host)
            if line is None:
                lines.append(f"  {host}: not touched")
                continue
            speed = f"; {line.speed['text']}" if line.speed.get("text") else ""
            reason = f"; {line.reason}" if line.reason else ""
            lines.append(f"  {host}: {line.state} at {line.at}{speed}{reason}")
    return lines + _runs(rollout)


def _runs(rollout: Rollout) -> list[str]:
    return [
        f"run of {run.started_at} by {run.controller}: "
        + (f"{run.outcome}, {run.reason}" if run.ended_at else "did not end by itself")
        for run in rollout.runs
    ]
