"""One engine process for tests: start, wait, ask, stop."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from treeline_reference_engine import train

SOURCE = Path(train.__file__).resolve().parents[1]


class Engine:
    """One engine process with its log."""

    def __init__(self, arguments: list[str], log: Path, port: int) -> None:
        self.port = port
        self._log = log
        with log.open("wb") as stream:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "treeline_reference_engine", "--port", str(port), *arguments],
                stdout=stream,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": str(SOURCE)},
                start_new_session=True,
            )

    @property
    def log(self) -> str:
        """Everything printed so far; progress bars split into lines."""
        return self._log.read_text(errors="replace").replace("\r", "\n")

    def wait_for(self, text: str, timeout: float = 30.0) -> None:
        """Wait until ``text`` is in the log."""
        deadline = time.monotonic() + timeout
        while text not in self.log:
            assert self.process.poll() is None, self.log
            assert time.monotonic() < deadline, f"{text!r} did not come:\n{self.log}"
            time.sleep(0.02)

    def wait_ready(self) -> Engine:
        """Wait for the ready line."""
        self.wait_for("The server is fired up and ready to roll!")
        return self

    def request(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, str]:
        """(status, text) of one request."""
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            data = json.dumps(body) if body is not None else None
            link.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
            answer = link.getresponse()
            return answer.status, answer.read().decode()
        finally:
            link.close()

    def generate(self, text: str, tokens: int = 48, **sampling: Any) -> dict[str, Any]:
        """The answer of /generate, greedy."""
        params = {"temperature": 0, "max_new_tokens": tokens, **sampling}
        status, answer = self.request("POST", "/generate", {"text": text, "sampling_params": params})
        assert status == 200, answer
        return dict(json.loads(answer))

    def chat(self, text: str, tokens: int = 96) -> str:
        """The content of /v1/chat/completions, greedy."""
        body = {
            "messages": [{"role": "user", "content": text}],
            "temperature": 0,
            "max_tokens": tokens,
            "chat_template_kwargs": {"thinking": False, "enable_thinking": False},  # no use here, no error
        }
        status, answer = self.request("POST", "/v1/chat/completions", body)
        assert status == 200, answer
        return str(json.loads(answer)["choices"][0]["message"]["content"])

    def info(self) -> dict[str, Any]:
        """/server_info."""
        return dict(json.loads(self.request("GET", "/server_info")[1]))

    def stop(self) -> int:
        """SIGTERM, and the exit status."""
        self.process.terminate()
        return self.process.wait(timeout=20)


StartEngine = Callable[..., Engine]
