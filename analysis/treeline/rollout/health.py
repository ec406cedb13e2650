"""The health of a fleet in one line a host: what is wrong, what drifted, what it died of last."""

from __future__ import annotations

import gzip
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from treeline.plain import clean, to_plain
from treeline.signatures import classify_journal


@dataclass(frozen=True)
class HostHealth:
    """One host. ``classes`` are the failure classes of its last service lives, the newest last."""

    host: str
    healthy: bool
    problems: tuple[str, ...]
    serves: str
    source: str
    classes: tuple[str, ...]

    @property
    def line(self) -> str:
        """The line for people."""
        died = f"; died of {', '.join(self.classes)}" if self.classes else ""
        state = "well" if self.healthy else f"NOT WELL: {'; '.join(self.problems)}"
        return f"{self.host}: {state}; meant to serve {self.serves} ({self.source}){died}"


def of_host(variables: Mapping[str, Any]) -> dict[str, Any]:
    """What the health play registered about one host, as plain values for ``host_health``."""
    names = ("__treeline_health", "__treeline_intended", "__treeline_listed")
    plain: dict[str, Any] = to_plain({name: variables.get(name) or {} for name in names})
    return plain


def host_health(host: str, found: Mapping[str, Any]) -> HostHealth:
    """Judge one host by what ``of_host`` returned."""
    looked = found.get("__treeline_health") or {}
    meant = found.get("__treeline_intended") or {}
    listed = found.get("__treeline_listed") or {}
    problems = [str(problem) for problem in looked.get("problems") or []]
    if looked.get("unreachable") or not looked:
        problems.insert(0, f"unreachable: {clean(looked.get('msg') or 'it did not answer')}")
    elif looked.get("failed"):
        problems.insert(0, clean(looked.get("msg") or "it could not be looked at"))
    problems.extend(_at_the_router(listed))
    key = meant.get("key") or {}
    return HostHealth(
        host=host,
        healthy=not problems,
        problems=tuple(problems),
        serves=" ".join(
            f"{name} {key[name]}" for name in ("budget", "topk", "maxreq", "graphs") if name in key
        ),
        source=str(meant.get("source") or "unknown"),
        classes=last_classes(str(looked.get("journal") or "")),
    )


def _at_the_router(listed: Mapping[str, Any]) -> list[str]:
    if not listed or listed.get("skipped"):
        return []
    if listed.get("failed") or listed.get("msg"):
        return [f"the router was not asked: {clean(listed.get('msg') or '')}"]
    if not listed.get("listed"):
        return ["drained: the router does not list it"]
    return [] if listed.get("healthy") else ["the router lists it as unhealthy"]


def last_classes(journal: str) -> tuple[str, ...]:
    """Failure classes of the service lives in an excerpt (`-o json` lines, gzip, base64), oldest first."""
    if not journal:
        return ()
    lives: dict[str, list[str]] = {}
    for line in gzip.decompress(b64decode(journal)).splitlines():
        entry = msgspec.json.decode(line)
        life = entry.get("_SYSTEMD_INVOCATION_ID") or entry.get("INVOCATION_ID")
        if life:
            lives.setdefault(life, []).append(line.decode())
    verdicts = [classify_journal(lines, alive=None) for lines in lives.values()]
    return tuple(verdict.class_ for verdict in verdicts if verdict.class_ != "ok")
