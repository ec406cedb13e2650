"""What a service must answer before it counts as ready."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from treeline_target import http, ready


class Service:
    """`pages` maps a path to (status, body)."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[int, Any]] = {}
        self.asked: list[tuple[str, str | None, Any]] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                service.asked.append(
                    (self.path, self.headers.get("Authorization"), json.loads(body or b"null"))
                )
                status, answer = service.pages.get(self.path, (404, ""))
                data = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_POST = do_GET  # noqa: N815

            def log_message(self, *_: object) -> None:
                return None

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    thread = threading.Thread(target=made.server.serve_forever, daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()


TOKEN = {"text": " four", "meta_info": {"completion_tokens": 1}}


@pytest.mark.parametrize("token", [TOKEN, [TOKEN], {"text": "", "output_ids": [7]}])
def test_one_generated_token_makes_it_ready(service: Service, token: Any) -> None:
    service.pages = {"/health_generate": (200, ""), "/generate": (200, token)}
    ready.generate_one_token(service.url, "k3y")
    path, authorization, payload = service.asked[-1]
    assert (path, authorization) == ("/generate", "Bearer k3y")
    assert payload["sampling_params"]["max_new_tokens"] == 1


def test_an_old_server_is_asked_for_its_plain_health(service: Service) -> None:
    service.pages = {"/health": (200, ""), "/generate": (200, TOKEN)}
    ready.generate_one_token(service.url, None)
    assert [path for path, _, _ in service.asked] == ["/health_generate", "/health", "/generate"]


@pytest.mark.parametrize(
    ("pages", "words"),
    [
        ({"/health_generate": (503, "")}, "health check with 503"),
        ({"/health_generate": (200, ""), "/generate": (500, "")}, "answered 500"),
        ({"/health_generate": (200, ""), "/generate": (200, "content")}, "without JSON"),
        ({"/health_generate": (200, ""), "/generate": (200, {"text": ""})}, "without a token"),
        ({"/health_generate": (200, ""), "/generate": (200, [])}, "without a token"),
        ({"/health_generate": (200, ""), "/generate": (200, {"content": None})}, "without a token"),
    ],
)
def test_an_answer_without_a_token_is_not_ready(service: Service, pages: Any, words: str) -> None:
    service.pages = pages
    with pytest.raises(http.HttpError, match=words):
        ready.generate_one_token(service.url, None)


def test_server_info_falls_back_to_its_old_name_and_hides_secrets(service: Service) -> None:
    service.pages = {
        "/get_server_info": (
            200,
            {
                "api_key": "s3cret",
                "max_running_requests": 64,
                "launch_command": "python -m sglang.launch_server --api-key s3cret --port 31990",
            },
        )
    }
    info = ready.server_info(service.url, None)
    assert info["max_running_requests"] == 64
    assert "s3cret" not in json.dumps(info)
    assert "--port 31990" in info["launch_command"]


def test_a_service_without_such_a_page_reports_nothing(service: Service) -> None:
    assert ready.server_info(service.url, None) == {}


@pytest.mark.parametrize("answer", [(500, ""), (200, "no json")])
def test_a_broken_server_info_is_not_ready(service: Service, answer: Any) -> None:
    service.pages = {"/server_info": answer}
    with pytest.raises(http.HttpError):
        ready.server_info(service.url, None)
