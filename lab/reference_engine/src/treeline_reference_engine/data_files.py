"""YAML or JSON mappings; a packaged .yml may stand as .json instead, as hosts need no YAML parser then."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "profiles"


class ProfileError(ValueError):
    """A profile that cannot be used; the text names the file and the place."""


@functools.lru_cache(maxsize=32)
def packaged(name: str) -> Mapping[str, Any]:
    """The mapping in a packaged file, ``name`` relative to the folder and without suffix; read once."""
    return read_mapping(FOLDER / f"{name}.yml")


def read_mapping(path: Path) -> Mapping[str, Any]:
    """The mapping in a file. Raises ProfileError."""
    twin = path.with_suffix(".json")
    if path.suffix != ".json" and twin.exists():
        path = twin
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ProfileError(f"{path}: {error.strerror}.") from error
    try:
        data = json.loads(text) if path.suffix == ".json" else _yaml(text, path)
    except ValueError as error:
        raise ProfileError(f"{path}: {error}") from error
    if not isinstance(data, Mapping):
        raise ProfileError(f"{path}: a mapping is expected, not {type(data).__name__}.")
    return data


def known(mapping: Any, allowed: tuple[str, ...], where: str) -> None:
    """Raise ProfileError unless ``mapping`` is a mapping with only ``allowed`` keys."""
    if not isinstance(mapping, Mapping):
        raise ProfileError(f"{where}: a mapping is expected, not {type(mapping).__name__}.")
    for name in mapping:
        if name not in allowed:
            raise ProfileError(f"{where}: {name!r} is not known. Allowed: {', '.join(allowed)}.")


def _yaml(text: str, path: Path) -> Any:
    try:
        import yaml
    except ImportError as error:
        raise ProfileError(
            f"{path}: this Python has no PyYAML; install python3-yaml or write it as JSON."
        ) from error
    # The parser in C, where PyYAML was built with it, is ten times as fast.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.load(text, Loader=loader)  # noqa: S506  (a safe loader either way)
    except yaml.YAMLError as error:
        raise ProfileError(f"{path}: {error}") from error
