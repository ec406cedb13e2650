"""What an SGLang service on this host says it serves: its address, its answer, how two answers compare."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence

from . import http, redact

# Where SGLang listens when neither its command line nor its configuration file says so.
DEFAULT_PORT = 30000
_SERVERS = ("sglang.launch_server", "launch_server.py", "treeline_reference_engine")
_SETTING = r"(?m)^%s[ \t]*:[ \t]*[\"']?([^\s\"'#]+)"
# Where SGLang tells its arguments; up to 0.5.2 only the second page is there, from 0.5.6 on it is deprecated.
INFO_PAGES = ("/server_info", "/get_server_info")
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "[::]": "[::1]", "": "127.0.0.1"}  # noqa: S104
# Differ from one life of the same service to the next, or are no arguments. SGLang puts what its scheduler
# measured (`scheduler_info`) flat among them: how many tokens fit into the memory that is left (never
# quite as many as in the last life) and addresses of this life's transfer engine.
VOLATILE = frozenset(
    (
        "hicache_object_layout",
        "internal_states",
        "kv_event_sources",
        "kv_events",
        "last_gen_throughput",
        "launch_command",
        "max_req_input_len",
        "max_total_num_tokens",
        "nccl_port",
        "random_seed",
        "remote_instance_transfer_engine_session_id",
        "remote_instance_transfer_engine_weights_info_dict",
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
    """Where to ask the service with this command line; None where nothing tells.

    Its own port counts first, that of its configuration file next, then `configured`, then SGLang's default
    where the command line is that of an SGLang server.
    """
    settings = _settings(argv)
    port = option(argv, "--port") or settings.get("port", "")
    if not port.isdigit():
        if configured:
            return configured.rstrip("/")
        if not is_server(argv):
            return None
        port = str(DEFAULT_PORT)
    host = option(argv, "--host") or settings.get("host", "")
    host = _EVERYWHERE.get(host, host)
    if ":" in host and not host.startswith("["):
        host = "[%s]" % host
    return "http://%s:%s" % (host, port)


def is_server(argv: Sequence[str]) -> bool:
    """Whether this is the command line of an SGLang server, or of the reference engine."""
    names = [word.rpartition("/")[2] for word in argv]
    return any(name in _SERVERS for name in names) or " sglang serve " in " %s " % " ".join(names)


def _settings(argv: Sequence[str]) -> dict[str, str]:
    """`host` and `port` in the flat YAML file that `--config` names; none where it cannot be read."""
    path = option(argv, "--config")
    if path is None or not path.startswith("/"):
        return {}
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    found = {key: re.findall(_SETTING % key, text) for key in ("host", "port")}
    return {key: values[-1] for key, values in found.items() if values}


def probe(url: str, timeout: float, api_key: Optional[str] = None) -> Probe:
    """Ask a service for its arguments (/server_info, once /get_server_info), else for its health."""
    for page in INFO_PAGES:
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
