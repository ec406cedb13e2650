"""The chat template: plain text, one turn a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_NAMES = {"user": "User", "assistant": "Assistant", "system": "System", "developer": "System", "tool": "Tool"}


def render_chat(messages: Sequence[Mapping[str, Any]]) -> str:
    """The prompt for ``messages``; it ends with ``Assistant:``. Raises ValueError for a malformed message."""
    lines = []
    for number, message in enumerate(messages):
        role = message.get("role")
        if role not in _NAMES:
            raise ValueError(f"messages[{number}].role is {role!r}; allowed are {', '.join(_NAMES)}.")
        lines.append(f"{_NAMES[role]}: {_content(message.get('content'), number)}\n")
    return "".join(lines) + "Assistant:"


def _content(content: Any, number: int) -> str:
    """Plain text, or the text parts of a list of parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    raise ValueError(
        f"messages[{number}].content must be text or a list of parts, not {type(content).__name__}."
    )
