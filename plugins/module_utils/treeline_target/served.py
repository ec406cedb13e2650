"""What an SGLang service on this host says it serves: its address, its answer, how two answers compare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Optional, Sequence

from . import http, redact

DEFAULT_PORT = 30000
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "[::]": "[::1]", "": "127.0.0.1"}  # noqa: S104
# Differ from one life of the same service to the next, or are no arguments.
VOLATILE = frozenset(
    (
        "internal_states",
        "kv_events",
        "last_gen_throughput",
        "launch_command",
        "nccl_port",
        "random_seed",
        "scheduler_info",
        "startup_time",
        "status",
        "uptime",
        "version",
    )
)


@dataclass(frozen=True)
class Probe:
    """One look at a service: did it answer, and with which arguments (secrets hidden; None: no such page)."""

    answered: bool
    served: Optional[dict[str, Any]]


def option(argv: Sequence[str], name: str) -> Optional[str]:
    """The value of `--name value` or `--name=value` in a command line; the last one counts."""
    value = None
    for index, word in enumerate(argv):
        if word == name and index + 1 < len(argv):
            value = argv[index + 1]
        elif word.startswith(name + "="):
            value = word[len(name) + 1 :]
    return value


def base_url(argv: Sequence[str], configured: Optional[str] = None) -> Optional[str]:
    """Where to ask the service with this command line: its own port, else `configured`, else None."""
    port = option(argv, "--port")
    if port is None or not port.isdigit():
        return configured.rstrip("/") if configured else None
    host = option(argv, "--host") or ""
    host = _EVERYWHERE.get(host, host)
    if ":" in host and not host.startswith("["):
        host = "[%s]" % host
    return "http://%s:%s" % (host, port)


def probe(url: str, timeout: float, api_key: Optional[str] = None) -> Probe:
    """Ask a service for its arguments (/server_info, once /get_server_info), else for its health."""
    for page in ("/server_info", "/get_server_info"):
        try:
            answer = http.request(url + page, timeout, api_key=api_key)
            if answer.status == 200:
                value = answer.json()
                if isinstance(value, dict):
                    return Probe(True, redact.fields(value))
        except http.HttpError:
            return Probe(False, None)
        except ValueError:
            continue
    try:
        return Probe(http.request(url + "/health", timeout, api_key=api_key).status == 200, None)
    except http.HttpError:
        return Probe(False, None)


def arguments(served: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a /server_info answer that must be the same in every life of the same configuration."""
    return {key: value for key, value in served.items() if key not in VOLATILE}


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Readable differences between two /server_info answers, volatile fields left out; empty when equal."""
    old, new = arguments(before), arguments(now)
    return [
        "%s: was %s, is %s" % (key, _shown(old, key), _shown(new, key))
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key) or (key in old) != (key in new)
    ]


def _shown(values: Mapping[str, Any], key: str) -> str:
    return repr(values[key]) if key in values else "absent"
