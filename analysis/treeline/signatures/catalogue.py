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
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

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

TIERS: tuple[str, ...] = (
    "node_kernel",
    "node_consequence",
    "host",
    "node_runtime",
    "application",
    "fallback",
)
"""Tiers that can hold a first cause, strongest first."""
NODE_TIERS = frozenset({"node_kernel", "node_consequence", "host", "node_runtime"})

BUILTIN = Path(__file__).with_name("catalogue.yml")
_FORM = 3  # raise when the structs below change: it is part of the cache key


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


class _File(msgspec.Struct, forbid_unknown_fields=True):
    schema_version: Literal[1]
    classes: list[Signature]
    never_evidence: list[str] = []
    consequence_exceptions: list[str] = []


class Catalogue(msgspec.Struct):
    """The checked catalogue: signatures in file order plus what is derived from them once."""

    signatures: list[Signature]
    never_evidence: list[str]
    consequence_exceptions: list[str]
    gates: list[str]
    """Short strings such that every literal holds at least one: the first, cheapest look at a journal."""

    def by_id(self, class_id: str) -> Signature:
        """Return the signature of a class; KeyError when the catalogue does not have it."""
        for signature in self.signatures:
            if signature.id == class_id:
                return signature
        raise KeyError(class_id)


def load_catalogue(user: Path | None = None) -> Catalogue:
    """Return the built-in catalogue, extended by a file of the user's.

    A class of the user's file with the id of a built-in class replaces it; other classes are added.
    Raises CatalogueError (bad content) and OSError (unreadable user file).
    """
    sources = [(BUILTIN, BUILTIN.read_bytes())]
    if user is not None:
        sources.append((user, user.read_bytes()))
    digest = hashlib.sha256(str(_FORM).encode())
    for _path, content in sources:
        digest.update(hashlib.sha256(content).digest())
    return _load(tuple(sources), digest.hexdigest()[:32])


@functools.lru_cache(maxsize=4)
def _load(sources: tuple[tuple[Path, bytes], ...], key: str) -> Catalogue:
    cached = _cache_file(key)
    if cached is not None:
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            return msgspec.msgpack.decode(cached.read_bytes(), type=Catalogue)
    catalogue = build_catalogue([_parse(path, content) for path, content in sources])
    if cached is not None:
        _store(cached, msgspec.msgpack.encode(catalogue))
    return catalogue


def _cache_file(key: str) -> Path | None:
    import platformdirs

    try:
        return Path(platformdirs.user_cache_dir("treeline")) / f"signatures-{key}.msgpack"
    except (OSError, RuntimeError):  # no home directory: work without a cache
        return None


def _store(path: Path, content: bytes) -> None:
    """Write the cache file whole or not at all; a read-only home is no reason to fail."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            part.write_bytes(content)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def _parse(path: Path, content: bytes) -> _File:
    import yaml

    try:
        loaded = yaml.load(content, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
        parsed = msgspec.convert(loaded, type=_File)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise CatalogueError(f"signature catalogue {path}: {error}") from None
    for signature in parsed.classes:
        problem = _problem(signature)
        if problem:
            raise CatalogueError(f"signature catalogue {path}: class '{signature.id}': {problem}")
    for pattern in parsed.consequence_exceptions:
        problem = _regex_problem(pattern)
        if problem:
            raise CatalogueError(f"signature catalogue {path}: consequence_exceptions: {problem}")
    return parsed


def _problem(signature: Signature) -> str | None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", signature.id):
        return "the id must be lower case letters, digits and underscores"
    if signature.tier == "derived":
        if signature.literals or signature.regex:
            return "tier derived has no error line, so literals and regex must be empty"
        return None
    if not signature.literals:
        return "literals is empty; at least one fixed string is needed (tier derived alone has none)"
    for literal in signature.literals:
        # Literals are looked up in the raw journal, where JSON escapes these characters.
        plain = literal.isascii() and literal.isprintable() and not set(literal) & {'"', "\\"}
        if len(literal) < 4 or not plain:
            return f"literal {literal!r} must be 4 or more printable ASCII characters, no quote or backslash"
    return next((found for found in map(_regex_problem, signature.regex) if found), None)


def _regex_problem(pattern: str) -> str | None:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        return f"regex {pattern!r} is not valid: {error}"
    unknown = set(compiled.groupindex) - {"pid", "name"}
    if unknown:
        return f"regex {pattern!r} has the group {sorted(unknown)[0]!r}; allowed are pid and name"
    return None


def build_catalogue(files: Sequence[_File]) -> Catalogue:
    """Merge parsed files, later ones over earlier ones, and derive the gates."""
    merged: dict[str, Signature] = {}
    never: list[str] = []
    consequences: list[str] = []
    for parsed in files:
        merged.update({signature.id: signature for signature in parsed.classes})
        never += parsed.never_evidence
        consequences += parsed.consequence_exceptions
    literals = {literal for signature in merged.values() for literal in signature.literals}
    return Catalogue(list(merged.values()), never, consequences, choose_gates(literals))


# What the bulk of a journal looks like: a gate that occurs here would make every ordinary line a candidate.
_ORDINARY = (
    "Decode batch, #running-req: 1, #token: 900, token usage: 0.01, accept len: 1.00, accept rate: 0.00, "
    "cuda graph: True, gen throughput (token/s): 21.30, #queue-req: 0, pre-allocated usage: 0.00, "
    "#retracted-req: 0, #full token: 1, full token usage: 0.0, #swa token: 1, block accept len: 1.0, cap len "
    "Prefill batch, #new-seq: 1, #new-token: 6, #cached-token: 0, cache hit rate: 0.00%, "
    'INFO:     127.0.0.1:1 - "POST /v1/chat/completions HTTP/1.1" 200 OK GET /generate /health /model_info '
    "_SYSTEMD_INVOCATION_ID _SYSTEMD_CGROUP _SYSTEMD_SLICE __MONOTONIC_TIMESTAMP __REALTIME_TIMESTAMP "
    "__SEQNUM_ID _SOURCE_REALTIME_TIMESTAMP SYSLOG_IDENTIFIER SYSLOG_FACILITY _RUNTIME_SCOPE _MACHINE_ID "
    "_CAP_EFFECTIVE _SELINUX_CONTEXT unconfined _TRANSPORT stdout kernel journal PRIORITY _HOSTNAME _CMDLINE "
    "python3 -m sglang.launch_server --model-path --speculative-algorithm DDTREE DFLASH EAGLE "
    "--speculative-ddtree-budget --speculative-num-draft-tokens --cuda-graph-max-bs-decode "
    "--disable-cuda-graph "
    "--max-running-requests --mem-fraction-static --attention-backend --trust-remote-code --log-requests "
)


def choose_gates(literals: set[str]) -> list[str]:
    """Return few short strings such that every literal holds at least one of them (greedy set cover).

    One search of a journal per gate is what bounds the classifier's speed, and there are far more literals
    than gates. A literal that has nothing rare in it becomes a gate itself.
    """
    options: dict[str, set[str]] = {}
    for literal in literals:
        for size in range(4, min(len(literal), 12) + 1):
            for start in range(len(literal) - size + 1):
                piece = literal[start : start + size]
                if piece not in _ORDINARY:
                    options.setdefault(piece, set()).add(literal)
    gates: list[str] = []
    uncovered = set(literals)
    while uncovered:
        best = max(options, key=lambda p: (len(options[p] & uncovered), len(p), p), default=None)
        if best is None or not options[best] & uncovered:
            gates.extend(sorted(uncovered))
            break
        gates.append(best)
        uncovered -= options[best]
    for gate in list(gates):  # early picks can be superseded by the sum of later ones
        others = [other for other in gates if other != gate]
        if all(any(other in literal for other in others) for literal in literals):
            gates = others
    return gates
