"""Filters that spell a restart key in a dialect; a door to treeline.dialects.

Each takes the dialect (its name, the path of a dialect file, or such a file's content) on the left and the
parameters as its argument: ``{{ 'field' | treeline_argv(parameters) }}``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from treeline import dialects
from treeline.flags import flag_words
from treeline.plain import to_plain


def treeline_argv(dialect: Any, params: Any, extra_args: Any = (), owned: Any = ()) -> list[str]:
    """The engine's arguments for the parameters, then the extra ones.

    Args:
        extra_args: a list of words, or a mapping of flags as ``treeline_flag_words`` takes it.
        owned: flags that the caller writes itself; naming one of them or of the dialect's is an error.
    """
    extra = to_plain(extra_args)
    try:
        words = flag_words(extra) if isinstance(extra, dict) else extra or []
    except ValueError as error:
        raise AnsibleFilterError(str(error)) from error
    return _spelt(dialects.argv, dialect, params, words, to_plain(owned))


def treeline_env(dialect: Any, params: Any) -> dict[str, str]:
    """The environment variables that carry parameters."""
    return _spelt(dialects.env, dialect, params)


def treeline_served(dialect: Any, params: Any) -> dict[str, Any]:
    """What the engine must report of the parameters: key of its server info -> value."""
    return _spelt(dialects.served, dialect, params)


def treeline_expected_width(dialect: Any, params: Any) -> int | None:
    """Tokens per request that the verify graph must be captured for; null without graphs."""
    return _spelt(dialects.expected_width, dialect, params)


def treeline_broken_rules(dialect: Any, params: Any) -> list[str]:
    """Messages of the rules that the parameters break; these must name all that the engine is given."""

    def judged(known: dialects.Dialect, values: Any) -> list[str]:
        return dialects.broken_rules(known, values, complete=True)

    return _spelt(judged, dialect, params)


def _spelt(function: Callable[..., Any], dialect: Any, params: Any, *more: Any) -> Any:
    try:
        known = dialects.resolve(to_plain(dialect))
        return function(known, to_plain(params), *more)
    except dialects.DialectError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """The filters by name."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name of each filter and what it calls."""
        return {
            "treeline_argv": treeline_argv,
            "treeline_env": treeline_env,
            "treeline_served": treeline_served,
            "treeline_expected_width": treeline_expected_width,
            "treeline_broken_rules": treeline_broken_rules,
        }
