"""What a rollout means for the inventory: the variables that keep it, and what a deployment would undo."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from treeline import jsonl
from treeline.keys import RestartKey
from treeline.records import utc_now
from treeline.rollout.intended import Intended
from treeline.rollout.records import (
    WELL,
    Chosen,
    HostLine,
    HostState,
    Rollout,
    RolloutStore,
    rollout_folders,
)

VARIABLES = "inventory-variables.yml"


def role_variables(chosen: Chosen) -> dict[str, Any]:
    """The role variables that give a host of the class this configuration."""
    return {
        "sglang_ddtree_dialect": chosen.dialect,
        **{f"sglang_ddtree_{name}": value for name, value in chosen.key.to_dict().items()},
    }


def write_variables(store: RolloutStore, rollout: Rollout) -> Path:
    """Write the variables of every hardware class into the rollout's folder, ready to be copied."""
    text = (
        f"# Rollout {rollout.rollout_id}. Copy the variables of each hardware class into the inventory, into "
        "group_vars\n# of its hosts: deploy.yml then keeps what was rolled out.\n---\n"
    )
    for name, chosen in rollout.chosen.items():
        hosts = ", ".join(
            host for wave in rollout.waves if wave.hardware_class == name for host in wave.hosts
        )
        text += f"# {name} ({hosts}): trial {chosen.trial_id}\n"
        text += yaml.safe_dump({name: role_variables(chosen)}, sort_keys=False)
    path = store.folder / VARIABLES
    jsonl.write_atomic(path, text.encode())
    return path


def undone_by_inventory(meant: Intended | None, key: Mapping[str, Any], dialect: str) -> tuple[str, ...]:
    """What a deployment of the inventory would change of what a rollout left here, in words."""
    if meant is None:
        return ()
    says = {"dialect": dialect, **msgspec.convert(dict(key), RestartKey, strict=False).to_dict()}
    stands = {"dialect": meant.dialect, **meant.key.to_dict()}
    return tuple(
        f"{name} {_shown(stands[name])} (the inventory says {_shown(says[name])})"
        for name in stands
        if stands[name] != says[name]
    )


def note(results: Path, rollout_id: str, host: str, state: HostState, reason: str) -> bool:
    """Add a line about a host to a rollout that is over; False where this controller has no such record.

    Newer rollouts that found the host with that configuration, and left it so, get the line too: what they
    say about the host is no longer so.
    """
    known = False
    for folder in rollout_folders(results):
        if folder.name < rollout_id:
            break
        store = RolloutStore(folder)
        before = store.latest().get(host)
        if before is None or (folder.name != rollout_id and before.state not in WELL):
            continue
        known = known or folder.name == rollout_id
        store.append(
            HostLine(
                rollout_id=folder.name,
                host=host,
                wave=before.wave,
                hardware_class=before.hardware_class,
                state=state,
                at=utc_now(),
                reason=reason,
                restarted=True,
                serving=True,
                simulated=before.simulated,
            )
        )
    return known


def wave_of(results: Path, rollout_id: str, host: str) -> int:
    """The wave of a host in a rollout (``last``: the newest that changed it); 0 where it had no part."""
    for folder in rollout_folders(results):
        if rollout_id not in ("last", folder.name):
            continue
        store = RolloutStore(folder)
        line = store.latest().get(host)
        if rollout_id == "last" and (line is None or line.state == "unchanged"):
            continue
        return next((one.number for one in store.read().waves if host in one.hosts), 0)
    return 0


def _shown(value: Any) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
