"""Filters of the playbooks: doors to what the package makes of registered results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treeline import outcomes, preflight_view
from treeline.plain import to_plain


def client_key(reference: Any) -> dict[str, Any]:
    """The point to load a host with, of a recorded one."""
    return {name: to_plain(reference).get(name) for name in ("concurrency", "context")}


def host_health(variables: Any) -> dict[str, Any]:
    """What the health play registered about one host."""
    from treeline.rollout import health  # the classifier: only where health is asked for

    return health.of_host(variables)


class FilterModule:
    """Names under which Ansible finds the filters."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name of each filter and what it calls."""
        return {
            "treeline_host_outcome": outcomes.host_outcome,
            "treeline_client_key": client_key,
            "treeline_host_health": host_health,
            "treeline_preflight_lines": preflight_view.lines,
        }
