"""ssh key pairs and known hosts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from treeline_lab.commands import run


def ensure_pair(path: Path, comment: str) -> None:
    """Make an ed25519 pair at `path` and `path`.pub unless both are there."""
    if path.exists() and public(path).exists():
        return
    path.unlink(missing_ok=True)
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)])


def public(path: Path) -> Path:
    """The public half's file."""
    return path.with_name(path.name + ".pub")


def known_hosts(host_keys: Mapping[str, Path]) -> str:
    """A known_hosts text (sshd(8)) for addresses and their hosts' private key files."""
    lines = []
    for address, path in host_keys.items():
        if public(path).exists():
            kind, key = public(path).read_text(encoding="utf-8").split()[:2]
            lines.append(f"{address} {kind} {key}\n")
    return "".join(lines)
