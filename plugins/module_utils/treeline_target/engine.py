"""What is installed on this host: the engine's build and the model's identity."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Iterable, Optional

from . import systemd

REFERENCE_DISTRIBUTION = "treeline-reference-engine"
_ASK = """
import importlib.metadata as metadata, json, sys
found = metadata.distribution(sys.argv[1])
origin = json.loads(found.read_text("direct_url.json") or "{}")
print(json.dumps({"version": found.version, "commit": origin.get("vcs_info", {}).get("commit_id", "")}))
"""
_TIMEOUT_S = 60.0


class EngineError(Exception):
    """The engine's build cannot be told; the message says which interpreter was asked and what it said."""


def name_of(distribution: str) -> str:
    """`reference` for the lab engine, whose timing is simulated, else `sglang`."""
    return "reference" if distribution == REFERENCE_DISTRIBUTION else "sglang"


def build(python: str, distribution: str) -> str:
    """`sglang 0.5.23`, with `@<commit>` when it was installed from a repository. Raises EngineError."""
    try:
        done = systemd.run((python, "-I", "-c", _ASK, distribution), timeout=_TIMEOUT_S)
    except (systemd.CommandError, OSError) as error:
        raise EngineError("%s cannot be asked for its packages: %s" % (python, error)) from None
    if done.rc != 0:
        said = done.stderr.strip().splitlines()
        raise EngineError("%s has no package %s (%s)" % (python, distribution, said[-1] if said else done.rc))
    found = json.loads(done.stdout)
    commit = "@%s" % found["commit"][:12] if found["commit"] else ""
    return "%s %s%s" % (distribution, found["version"], commit)


def model_identity(paths: Iterable[str]) -> Optional[str]:
    """A name that changes with the models: per path its last part and a hash of file names, sizes, config.

    Contents of weights are not read. None without paths.
    """
    parts = []
    for path in paths:
        folder = Path(path)
        digest = hashlib.sha256()
        files = (
            sorted(entry for entry in folder.iterdir() if entry.is_file()) if folder.is_dir() else [folder]
        )
        for file in files:
            if file.exists():
                digest.update(("%s %d\n" % (file.name, file.stat().st_size)).encode("utf-8"))
        config = folder / "config.json"
        if config.is_file():
            digest.update(config.read_bytes())
        parts.append("%s#%s" % (folder.name or path, digest.hexdigest()[:8]))
    return " + ".join(parts) or None
