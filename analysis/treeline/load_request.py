"""What a load is given to send, made ready for its way to a host: texts, canaries, and only what it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from treeline_target import load_material, load_spec

from treeline import material, prompt_files

# Warm-up and canaries' load use prompts too; and a prompt of a file may come again under other letters.
SPARE = 64
_OWN = ("prompts", "prompt_files", "canaries")


def packed(
    arguments: Mapping[str, Any], find: Callable[[str], Path] = Path, folder: Path | None = None
) -> dict[str, Any]:
    """Arguments of the module treeline_load with prompts, prompt files and canaries packed into `material`.

    Args:
        arguments: those of the task.
        find: turns the name of a prompt file into its path on the controller.
        folder: base texts that are taken when neither prompts nor files are named; None: the shipped ones.

    Raises:
        treeline.material.MaterialError: a file cannot be used, an option has the wrong type, or the prompts
            are too large to be sent.
    """
    rest = {name: value for name, value in arguments.items() if name not in _OWN}
    if rest.get("material"):
        return rest
    files = _texts("prompt_files", arguments.get("prompt_files"))
    prompts = _texts("prompts", arguments.get("prompts"))
    if files and prompts:
        raise material.MaterialError("prompts and prompt_files exclude each other")
    if files:
        seed = str(arguments.get("prompts_seed") or "")
        prompts = prompt_files.choose([find(name) for name in files], needed(arguments), seed)
    canaries = arguments.get("canaries") or []
    if not isinstance(canaries, list) or not all(isinstance(one, Mapping) for one in canaries):
        raise material.MaterialError("canaries: a list of mappings is needed")
    try:
        text = load_material.pack(prompts or material.prompts(folder), canaries, questions=bool(files))
    except load_material.MaterialError as error:
        raise material.MaterialError(str(error)) from error
    except (TypeError, ValueError) as error:
        raise material.MaterialError(f"canaries: not plain values: {error}") from error
    return {**rest, "material": text}


def needed(arguments: Mapping[str, Any]) -> int:
    """How many different prompts a load can make use of."""
    keys = arguments.get("client_keys")
    per_key = _whole(arguments.get("requests_per_key"), 0)
    repeats = max(_whole(arguments.get(name), 1) for name in ("repeats", "min_repeats", "max_repeats"))
    total = SPARE
    for key in keys if isinstance(keys, list) else []:
        concurrency = _whole(key.get("concurrency") if isinstance(key, Mapping) else None, 1)
        requests = per_key or min(load_spec.MAX_REQUESTS, 2 * concurrency)
        total += repeats * max(requests, concurrency, load_spec.MIN_REQUESTS)
    return min(total, load_spec.MAX_REQUESTS_PER_KEY)


def _texts(name: str, given: Any) -> list[str]:
    values = [given] if isinstance(given, str) and given else given or []
    if not isinstance(values, list | tuple) or not all(isinstance(value, str) for value in values):
        raise material.MaterialError(f"{name}: a list of texts is needed")
    return list(values)


def _whole(value: Any, default: int) -> int:
    try:
        return int(value) if value not in (None, "") else default
    except (TypeError, ValueError):
        return default
