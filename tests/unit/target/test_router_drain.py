"""A drain that fails on the way leaves the worker on the router's list."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from treeline_target import router

# Nothing listens there: an idle worker.
WORKER = "http://127.0.0.1:9"
OTHER = "http://127.0.0.1:10"


class Router:
    """What a router keeps. `entries` are addresses by id, `refuse` are requests that fail once.

    `after_delete` joins `refuse` at the next deletion, which is made `lingers` seconds after its answer.
    """

    def __init__(self, *urls: str) -> None:
        self.entries = {f"id-{number}": url for number, url in enumerate(urls)}
        self.refuse: list[str] = []
        self.after_delete: list[str] = []
        self.lingers = 0.0
        self.asked: list[str] = []

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """One request, in the order in which they come."""
        self.asked.append(f"{method} {path}")
        if f"{method} {path}" in self.refuse:
            self.refuse.remove(f"{method} {path}")
            return 500, {"error": "not now"}
        if method == "DELETE":
            self.refuse += self.after_delete
            self.after_delete = []
            threading.Timer(self.lingers, self._remove, (self.entries[path.rsplit("/", 1)[-1]],)).start()
            return 202, {"status": "accepted"}
        if method == "POST":
            self._remove(body["url"])
            self.entries = {**self.entries, f"new-{len(self.asked)}": body["url"]}
            return 202, {"status": "accepted"}
        workers = [
            {"id": one, "url": url, "is_healthy": True, "model_id": "m"} for one, url in self.entries.items()
        ]
        return 200, {"workers": workers}

    def _remove(self, url: str) -> None:
        self.entries = {one: kept for one, kept in self.entries.items() if kept != url}

    @property
    def urls(self) -> list[str]:
        """Addresses on the list."""
        return sorted(self.entries.values())


@pytest.fixture
def served() -> Iterator[tuple[Router, router.Router]]:
    """The router, and the client of one worker of it."""
    made = Router(WORKER, OTHER)

    class Handler(BaseHTTPRequestHandler):
        def _do(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size) or b"null")
            status, answer = made.answer(self.command, self.path, body)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            self._do()

        def do_POST(self) -> None:
            self._do()

        def do_DELETE(self) -> None:
            self._do()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield made, router.Router(f"http://127.0.0.1:{server.server_port}", WORKER)
    server.shutdown()
    server.server_close()


def test_a_drained_worker_is_off_the_list(served: tuple[Router, router.Router]) -> None:
    made, client = served
    changed, note = client.drain(10)
    assert changed
    assert "nothing answers" in note
    assert made.urls == [OTHER]


def test_a_router_that_is_slow_once_is_asked_again(served: tuple[Router, router.Router]) -> None:
    made, client = served
    made.after_delete = ["GET /workers"]
    assert client.drain(10)[0]
    made.refuse = ["GET /workers"]
    assert client.register(10)
    assert made.urls == sorted((WORKER, OTHER))


def test_a_router_that_does_not_tell_after_a_deletion_gets_the_worker_back(
    served: tuple[Router, router.Router],
) -> None:
    made, client = served
    made.after_delete = ["GET /workers"] * 3
    with pytest.raises(router.RouterError, match="does not tell its workers"):
        client.drain(0.3)
    assert made.urls == sorted((WORKER, OTHER))
    assert "DELETE /workers/id-0" in made.asked


def test_a_deletion_that_is_still_under_way_is_not_taken_for_a_listed_worker(
    served: tuple[Router, router.Router],
) -> None:
    made, client = served
    made.lingers = 1.2
    made.after_delete = ["GET /workers"] * 3
    with pytest.raises(router.RouterError, match="does not tell its workers"):
        client.drain(0.3)
    assert made.urls == sorted((WORKER, OTHER))
    assert "id-0" not in made.entries


def test_a_second_deletion_that_fails_gets_the_worker_back(
    served: tuple[Router, router.Router], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(router, "_LEAVE_S", 0.6)
    made, client = served
    made.entries["id-2"] = WORKER + "/"
    made.refuse = ["DELETE /workers/id-2"]
    with pytest.raises(router.RouterError, match="answered 500 to DELETE"):
        client.drain(10)
    assert WORKER + "/" in made.urls


def test_what_keeps_it_off_the_list_is_told_beside_what_failed(served: tuple[Router, router.Router]) -> None:
    made, client = served
    made.after_delete = ["GET /workers"] * 3 + ["POST /workers"]
    with pytest.raises(router.RouterError, match=r"does not tell .*not back on the list: .* 500 to POST"):
        client.drain(0.3)
