"""What the load sends: the canaries and the base texts of the prompts that ship with Treeline.

Shapes: canaries are a list of mappings {id, kind, prompt, expect, max_tokens} as in data/canaries.yml;
prompts are plain texts, one for each file of data/prompts.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import yaml

DATA = Path(__file__).resolve().parent / "data"


class MaterialError(ValueError):
    """A canary file or prompt folder cannot be used; the message names it and what is expected."""


class Canary(msgspec.Struct, forbid_unknown_fields=True):
    """One question whose right answer is known; `expect` is a regular expression on the answer.

    `check`: Python statements that the answered code must pass (treeline_target.coding).
    """

    id: str
    kind: str
    prompt: str
    expect: str
    max_tokens: int = 32
    check: str | None = None


def canaries(path: Path | None = None) -> list[dict[str, object]]:
    """Canaries of `path` (default: the shipped ones) as plain mappings. Raises MaterialError."""
    source = path or DATA / "canaries.yml"
    try:
        parsed = msgspec.convert(yaml.safe_load(source.read_text(encoding="utf-8")), list[Canary])
    except (OSError, yaml.YAMLError, msgspec.ValidationError) as error:
        raise MaterialError(f"canaries: {source} cannot be used: {error}") from error
    return [msgspec.to_builtins(canary) for canary in parsed]


def prompts(folder: Path | None = None) -> list[str]:
    """Base texts of the load, in the order of their file names. Raises MaterialError when there is none."""
    source = folder or DATA / "prompts"
    texts = [path.read_text(encoding="utf-8") for path in sorted(source.glob("*.txt"))]
    if not texts:
        raise MaterialError(f"prompts: {source} holds no *.txt file")
    return texts
