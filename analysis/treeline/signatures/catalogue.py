"""The catalogue of failure classes: YAML in, validated structs out, kept compiled on disk.

Reading and checking the YAML costs about a hundred times more than reading the compiled form, and the record
action runs in a fresh process each time. So the checked catalogue is stored in the user's cache folder under
the hash of its sources; a stale or broken cache file is simply ignored.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from treeline.signatures.scanner import cache_file, store

Tier = Literal[
    "node_kernel",
    "node_consequence",
    "host",
    "node_runtime",
    "application",
    "fallback",
    "consequence",
    "warning",
    "derived",
]
Kind = Literal["config", "node", "transient", "setup", "none"]
Phase = Literal[
    "args", "dist_init", "weights", "kv_pool", "graph_capture", "http", "warmup", "serving", "shutdown"
]

EARLY = frozenset({"args", "dist_init", "weights", "kv_pool", "graph_capture", "http"})
"""Phases before the first generated token."""
Place = tuple[str | int, ...]
"""Keys and indexes that lead to a value of a file."""
TIERS: tuple[str, ...] = (
    "node_kernel",
    "node_consequence",
    "host",
    "node_runtime",
    "application",
    "fallback",
)
"""Tiers that can hold a first cause, strongest first."""

BUILTIN = Path(__file__).with_name("catalogue.yml")
ENVIRONMENT = "TREELINE_CATALOGUE"
_FORM = 4  # raise when the structs below change: it is part of the cache key


class CatalogueError(ValueError):
    """A catalogue file that cannot be used; the message names the file, the class and what is allowed."""


class Signature(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One class of failure. Field meanings stand at the top of `catalogue.yml`."""

    id: str
    tier: Tier
    layer: str
    kind: Kind
    advice: str
    literals: list[str] = []
    regex: list[str] = []
    unless: list[str] = []
    phases: list[Phase] = []
    references: list[str] = []
    source: Literal["service", "any"] = "service"
    yields_to_unknown: bool = False
    examples: list[str] = []
    near_misses: list[str] = []

    @property
    def of_the_start(self) -> bool:
        """Whether it is an error of the engine that can only arise before it serves."""
        return self.tier == "application" and bool(self.phases) and EARLY.issuperset(self.phases)


class File(msgspec.Struct, forbid_unknown_fields=True):
    """A catalogue file, the built-in one or a user's."""

    schema_version: Literal[1]
    classes: list[Signature]
    never_evidence: list[str] = []
    consequence_exceptions: list[str] = []


class Catalogue(msgspec.Struct):
    """The checked catalogue: signatures in file order plus what is derived from them once."""

    signatures: list[Signature]
    never_evidence: list[str]
    consequence_exceptions: list[str]

    def by_id(self, class_id: str) -> Signature:
        """Return the signature of a class; KeyError when the catalogue does not have it."""
        for signature in self.signatures:
            if signature.id == class_id:
                return signature
        raise KeyError(class_id)


def load_catalogue(user: Path | Sequence[Path] | None = None) -> Catalogue:
    """Return the built-in catalogue, extended by files of the user's.

    user: one file or several; None: those that the environment variable TREELINE_CATALOGUE names (separated
    as in PATH), if any. A class of a user's file with the id of another class replaces it; other classes are
    added.
    Raises CatalogueError (bad content) and OSError (unreadable user file).
    """
    files = own_files() if user is None else [user] if isinstance(user, Path) else user
    sources = [(path, path.read_bytes()) for path in (BUILTIN, *files)]
    digest = hashlib.sha256(str(_FORM).encode())
    for _path, content in sources:
        digest.update(hashlib.sha256(content).digest())
    return _load(tuple(sources), digest.hexdigest()[:32])


def own_files() -> list[Path]:
    """Return the files that TREELINE_CATALOGUE names."""
    return [Path(name) for name in os.environ.get(ENVIRONMENT, "").split(os.pathsep) if name]


@functools.lru_cache(maxsize=4)
def _load(sources: tuple[tuple[Path, bytes], ...], key: str) -> Catalogue:
    cached = cache_file(f"signatures-{key}.msgpack")
    if cached is not None:
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            return msgspec.msgpack.decode(cached.read_bytes(), type=Catalogue)
    catalogue = build_catalogue([_parse(path, content) for path, content in sources])
    if cached is not None:
        store(cached, msgspec.msgpack.encode(catalogue))
    return catalogue


def _parse(path: Path, content: bytes) -> File:
    import yaml

    try:
        loaded = yaml.load(content, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
        parsed = msgspec.convert(loaded, type=File)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise CatalogueError(f"signature catalogue {path}: {error}") from None
    for _place, problem in problems(parsed):
        raise CatalogueError(f"signature catalogue {path}: {problem}")
    return parsed


def problems(parsed: File) -> Iterator[tuple[Place, str]]:
    """Yield what is wrong with a file that has the right form, with its place in the file."""
    seen: set[str] = set()
    for at, signature in enumerate(parsed.classes):
        if signature.id in seen:
            yield ("classes", at), f"class '{signature.id}': the id stands twice in this file"
        seen.add(signature.id)
        for place, problem in _problems_of(signature):
            yield ("classes", at, *place), f"class '{signature.id}': {problem}"
    for at, pattern in enumerate(parsed.consequence_exceptions):
        for problem in _regex_problems(pattern):
            yield ("consequence_exceptions", at), f"consequence_exceptions: {problem}"


def _problems_of(signature: Signature) -> Iterator[tuple[Place, str]]:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", signature.id):
        yield ("id",), "the id must be lower case letters, digits and underscores"
    if signature.tier == "derived":
        if signature.literals or signature.regex:
            yield (), "tier derived has no error line, so literals and regex must be empty"
        return
    if not signature.literals:
        yield (), "literals is empty; at least one fixed string is needed (tier derived alone has none)"
    for at, literal in enumerate(signature.literals):
        # Literals are looked up in the raw journal, where JSON escapes these characters.
        plain = literal.isascii() and literal.isprintable() and not set(literal) & {'"', "\\"}
        if len(literal) < 4 or not plain:
            allowed = "4 or more printable ASCII characters, no quote or backslash"
            yield ("literals", at), f"literal {literal!r} must be {allowed}"
    for at, pattern in enumerate(signature.regex):
        for problem in _regex_problems(pattern):
            yield ("regex", at), problem


def _regex_problems(pattern: str) -> Iterator[str]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        yield f"regex {pattern!r} is not valid: {error}"
        return
    unknown = set(compiled.groupindex) - {"pid", "name"}
    if unknown:
        yield f"regex {pattern!r} has the group {sorted(unknown)[0]!r}; allowed are pid and name"


def build_catalogue(files: Sequence[File]) -> Catalogue:
    """Merge parsed files, later ones over earlier ones."""
    merged: dict[str, Signature] = {}
    never: list[str] = []
    consequences: list[str] = []
    for parsed in files:
        merged.update({signature.id: signature for signature in parsed.classes})
        never += parsed.never_evidence
        consequences += parsed.consequence_exceptions
    return Catalogue(list(merged.values()), never, consequences)
