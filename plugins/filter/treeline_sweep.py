"""Filters of the sweep playbooks: doors to treeline.outcomes and treeline.preflight_view."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treeline import outcomes, preflight_view


class FilterModule:
    """Names under which Ansible finds the filters."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name of each filter and what it calls."""
        return {
            "treeline_host_outcome": outcomes.host_outcome,
            "treeline_preflight_lines": preflight_view.lines,
        }
