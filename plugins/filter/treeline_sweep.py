"""Filters of the sweep playbooks: doors to treeline.outcomes and treeline.material."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from treeline import material, outcomes


def _canaries(_unused: object) -> list[dict[str, object]]:
    try:
        return material.canaries()
    except material.MaterialError as error:
        raise AnsibleFilterError(str(error)) from error


def _prompts(_unused: object) -> list[str]:
    try:
        return material.prompts()
    except material.MaterialError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """Names under which Ansible finds the filters."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "treeline_host_outcome": outcomes.host_outcome,
            "treeline_canaries": _canaries,
            "treeline_prompts": _prompts,
        }
