"""The training text: the Python standard library, the load prompts, and the canaries with their answers."""

from __future__ import annotations

import hashlib
import random
import re
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import yaml

from .chat import render_chat

# The canaries stand in the text in both spellings (chat template and bare), several times, between other
# documents: the model must give the answer whichever way it is asked, and must be sure of it.
_REPEATS = 4

# Rules of dashes and the like: a greedy n-gram model that once draws one never stops.
_RULE = re.compile(r"([^\w\s])\1{3,}")


@dataclass(frozen=True)
class TrainingText:
    """Documents in order. ``key`` changes with any character of them."""

    documents: tuple[str, ...]

    @property
    def key(self) -> str:
        digest = hashlib.sha256()
        for document in self.documents:
            digest.update(document.encode("utf-8", "surrogatepass"))
            digest.update(b"\0")
        return digest.hexdigest()[:16]


def standard_library(limit: int) -> list[str]:
    """Modules of the running Python's standard library, shuffled with a fixed seed: ``limit`` characters."""
    root = Path(sysconfig.get_paths()["stdlib"])
    files = sorted(path for path in root.glob("*.py") if not path.name.startswith("_"))
    random.Random(0).shuffle(files)  # noqa: S311  (an order, not a secret)
    out: list[str] = []
    size = 0
    for path in files:
        if size >= limit:
            break
        text = path.read_text(encoding="utf-8", errors="replace")
        if len(text) > 80_000:  # one long module would crowd out many small ones
            continue
        text = _RULE.sub(r"\1\1\1", text)
        out.append(text)
        size += len(text)
    return out


def canary_documents(canaries: Path, answers: Path) -> list[str]:
    """Question and answer documents. Raises ValueError when a canary has no answer."""
    known = yaml.safe_load(answers.read_text(encoding="utf-8"))
    out = []
    for canary in yaml.safe_load(canaries.read_text(encoding="utf-8")):
        if canary["id"] not in known:
            raise ValueError(f"{canaries}: the canary {canary['id']!r} has no answer in {answers}.")
        answer = known[canary["id"]]
        separator = "\n" if canary["kind"] == "code" else " "
        chat = render_chat([{"role": "user", "content": canary["prompt"]}])
        out.append(f"{chat}{separator}{answer}")
        out.append(f"{canary['prompt']}\n{answer}")
    return out


def collect(library: Iterable[str], texts: Iterable[str], questions: Iterable[str]) -> TrainingText:
    """All documents, the questions repeated and spread evenly among the rest."""
    rest = [*library, *texts]
    asked = list(questions) * _REPEATS
    random.Random(1).shuffle(rest)  # noqa: S311  (an order, not a secret)
    random.Random(2).shuffle(asked)  # noqa: S311  (an order, not a secret)
    out: list[str] = []
    placed = 0
    for number, document in enumerate(rest, start=1):
        out.append(document)
        until = number * len(asked) // len(rest)
        out += asked[placed:until]
        placed = until
    return TrainingText(tuple(out + asked[placed:]))


def split_paragraphs(text: str, size: int = 4000) -> list[str]:
    """``text`` in documents of about ``size`` characters, cut at empty lines or line ends."""
    out: list[str] = []
    current = ""
    for line in text.splitlines(keepends=True):
        current += line
        if len(current) >= size and not line.startswith((" ", "\t")):
            out.append(current)
            current = ""
    return out + ([current] if current else [])
