"""A small stand-in for a found service, run inside a lab host.

It answers /server_info with the values of its command line, takes its socket from systemd when it is given
one, and can be slow to be ready.

    standin_service.py --port 30000 [--budget 8] [--start-delay 0] [--running-requests 0]
"""

import argparse
import json
import os
import random
import socket
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

parser = argparse.ArgumentParser()
parser.add_argument("--host", default="127.0.0.1")
parser.add_argument("--port", type=int, required=True)
parser.add_argument("--budget", type=int, default=8)
parser.add_argument("--api-key", default="")
parser.add_argument("--start-delay", type=float, default=0.0)
parser.add_argument("--running-requests", type=int, default=0)
OPTIONS = parser.parse_args()


class Handler(BaseHTTPRequestHandler):
    """The pages that Treeline asks a found service for."""

    def do_GET(self) -> None:
        """Answer a question."""
        if OPTIONS.api_key and self.headers.get("Authorization") != f"Bearer {OPTIONS.api_key}":
            self.answer(401, "{}")
        elif self.path == "/server_info":
            served = {
                "speculative_ddtree_budget": OPTIONS.budget,
                "port": OPTIONS.port,
                "api_key": OPTIONS.api_key,
                "random_seed": random.randrange(2**31),
                "startup_time": time.time(),
                "internal_states": [{"last_gen_throughput": random.random()}],
            }
            self.answer(200, json.dumps(served))
        elif self.path == "/metrics":
            self.answer(
                200,
                f'sglang:num_running_reqs{{tp_rank="0"}} {OPTIONS.running_requests}.0\n'
                "sglang:num_queue_reqs 0.0\n",
            )
        else:
            self.answer(200 if self.path == "/health" else 404, "")

    def answer(self, status: int, body: str) -> None:
        """Send one short answer."""
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


time.sleep(OPTIONS.start_delay)
server = ThreadingHTTPServer((OPTIONS.host, OPTIONS.port), Handler, bind_and_activate=False)
if os.environ.get("LISTEN_PID") == str(os.getpid()):
    server.socket.close()
    server.socket = socket.socket(fileno=3)
    server.server_address = server.socket.getsockname()
else:
    server.server_bind()
    server.server_activate()
server.serve_forever()
