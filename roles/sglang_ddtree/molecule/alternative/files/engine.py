"""A stand-in for the engine in the role's tests: says over HTTP what it was given, or dies when told to.

usage: engine.py --host HOST --port PORT [any other flags]; with --die STATUS it exits with that status at
once, with --config FILE it reports whether it can read the file.
"""

import json
import os
import resource
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def value(flag: str, default: str = "") -> str:
    """The word after `flag` on the command line."""
    return sys.argv[sys.argv.index(flag) + 1] if flag in sys.argv else default


def can_write(folder: str) -> bool:
    """Whether this process may create a file in `folder`."""
    probe = Path(folder) / "probe"
    try:
        probe.touch()
        probe.unlink()
    except OSError:
        return False
    return True


def report() -> dict[str, object]:
    """What this process got: arguments, identity, limits and what it may write."""
    config = value("--config")
    return {
        "argv": sys.argv[1:],
        "uid": os.getuid(),
        "nofile": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "memlock": resource.getrlimit(resource.RLIMIT_MEMLOCK)[0],
        "writes": {
            folder: can_write(folder)
            for folder in ["/etc", "/opt", "/run/treeline/trial", value("--state", "/var/lib/sglang-ddtree")]
        },
        "home": os.environ.get("HOME"),
        "config": bool(config) and len(Path(config).read_text(encoding="utf-8")) > 0,
    }


class Handler(BaseHTTPRequestHandler):
    """/health is empty, /server_info the report; everything else is 404."""

    def do_GET(self) -> None:
        """Answer one request."""
        body = json.dumps(report()).encode() if self.path == "/server_info" else b""
        self.send_response(200 if self.path in ("/health", "/server_info") else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    print("engine starts", flush=True)
    if "--die" in sys.argv:
        print("engine dies as told", flush=True)
        sys.exit(int(value("--die")))
    ThreadingHTTPServer((value("--host"), int(value("--port"))), Handler).serve_forever()
