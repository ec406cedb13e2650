"""Filters that write command lines, environments and systemd units: a door to treeline.systemd_quote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from treeline import flags, systemd_quote


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, with its ValueError as the error that Ansible prints without a traceback."""

    def filtered(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except ValueError as error:
            raise AnsibleFilterError(str(error)) from error

    return filtered


class FilterModule:
    """The filters by name."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name of each filter and what it calls."""
        return {
            "treeline_command_line": _checked(systemd_quote.command_line),
            "treeline_environment_file": _checked(systemd_quote.environment_file),
            "treeline_environment_settings": _checked(systemd_quote.environment_settings),
            "treeline_flag_words": _checked(flags.flag_words),
            "treeline_is_loopback": systemd_quote.is_loopback,
            "treeline_systemd_quote": _checked(systemd_quote.quote_word),
        }
