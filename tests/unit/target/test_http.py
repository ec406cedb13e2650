"""Questions over HTTP against a real server: bounded, direct, and clear when they fail."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from treeline_target import http, served, traffic


class Handler(BaseHTTPRequestHandler):
    """A few pages, good and bad."""

    def do_GET(self) -> None:
        if self.path == "/drip":
            self.send_response(200)
            self.end_headers()
            try:
                for _ in range(50):
                    self.wfile.write(b" ")
                    time.sleep(0.1)
            except OSError:
                return
        elif self.path == "/away":
            self.send_response(302)
            self.send_header("Location", "/json")
            self.end_headers()
        elif self.path == "/key" and self.headers.get("Authorization") != "Bearer sesame":
            self.reply(401, "no")
        elif self.path == "/old/get_server_info":
            self.reply(200, json.dumps({"tp_size": 8, "api_key": "sesame"}))
        elif self.path in ("/json", "/key"):
            self.reply(200, '{"ok": true}')
        elif self.path == "/metrics":
            self.reply(200, '# HELP x\nsglang:num_running_reqs{tp="0"} 2.0\nsglang:num_queue_reqs 1\n')
        elif self.path == "/load/get_load":
            self.reply(200, '[{"dp_rank": 0, "num_reqs": 3, "num_waiting_reqs": 1}]')
        elif self.path == "/health-only/health":
            self.reply(200, "")
        else:
            self.reply(404, "nothing here")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.reply(200, json.dumps({"got": json.loads(body), "as": self.headers["Content-Type"]}))

    def reply(self, status: int, body: str) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_json_both_ways(url: str) -> None:
    assert http.get_json(url + "/json", 5) == {"ok": True}
    assert http.post_json(url + "/x", {"a": 1}, 5) == {"got": {"a": 1}, "as": "application/json"}


def test_the_key_comes_from_a_file(url: str, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("sesame\nsecond line\n")
    assert http.get_json(url + "/key", 5, http.read_key(str(file))) == {"ok": True}
    with pytest.raises(http.HttpError, match="/key answered 401"):
        http.get_json(url + "/key", 5)
    file.write_text("\n")
    with pytest.raises(http.KeyFileError, match="is empty"):
        http.read_key(str(file))
    with pytest.raises(http.KeyFileError, match="cannot read"):
        http.read_key(str(tmp_path / "absent"))
    assert http.read_key(None) is None


def test_a_dripping_answer_ends_in_time(url: str) -> None:
    started = time.monotonic()
    with pytest.raises(http.HttpError, match="did not end in time"):
        http.request(url + "/drip", 0.5)
    assert time.monotonic() - started < 3


def test_no_proxy_and_no_redirect(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert http.request(url + "/json", 5).status == 200
    assert http.request(url + "/away", 5).status == 302


@pytest.mark.parametrize("bad", ["file:///etc/passwd", "http://127.0.0.1:9/", "http://[bad/"])
def test_refusals_name_the_address(bad: str) -> None:
    with pytest.raises(http.HttpError) as caught:
        http.request(bad, 2)
    assert bad.rstrip("/") in str(caught.value)


def test_probe_knows_new_old_and_silent_services(url: str) -> None:
    assert served.probe(url + "/old", 5) == served.Probe(True, {"tp_size": 8, "api_key": "***"})
    assert served.probe(url + "/health-only", 5) == served.Probe(True, None)
    assert served.probe(url + "/absent", 5) == served.Probe(False, None)
    assert served.probe("http://127.0.0.1:9", 5) == served.Probe(False, None)


def test_traffic_is_counted_from_either_page_or_said_to_be_unknown(url: str) -> None:
    assert traffic.ask(url) == traffic.Traffic(2, 1)
    assert traffic.ask(url + "/load") == traffic.Traffic(3, 1)
    unknown = traffic.ask(url + "/absent")
    assert not unknown.known
    assert not unknown.busy
    assert "answered 404" in str(unknown.note)
