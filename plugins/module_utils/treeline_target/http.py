"""Ask HTTP services on this host: JSON in and out, bounded in time and size, never through a proxy."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping, Optional

MAX_BYTES = 16 * 1024 * 1024
_CHUNK = 64 * 1024


class HttpError(Exception):
    """No usable answer; the message names the address and says why."""


class KeyFileError(Exception):
    """The file with the API key cannot be used; the message names it, never its content."""


@dataclass(frozen=True)
class Answer:
    """What came back: the status code and the body as text (bad bytes replaced)."""

    status: int
    body: str

    def json(self) -> Any:
        """The body as JSON. Raises ValueError."""
        return json.loads(self.body)


def read_key(path: Optional[str]) -> Optional[str]:
    """The API key in the first line of `path`; None without a path. Raises KeyFileError."""
    if not path:
        return None
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise KeyFileError("api_key_file: cannot read %s: %s" % (path, error)) from None
    key = lines[0].strip() if lines else ""
    if not key:
        raise KeyFileError("api_key_file: the first line of %s is empty" % path)
    return key


def request(
    url: str,
    timeout: float,
    *,
    payload: Optional[Mapping[str, Any]] = None,
    api_key: Optional[str] = None,
    method: Optional[str] = None,
) -> Answer:
    """GET `url`, or send `payload` as JSON (POST, or `method`); it all ends within about `timeout` seconds.

    Any status is an answer. Raises HttpError on refusal, time-out, a broken answer or one over MAX_BYTES.
    """
    if not url.startswith(("http://", "https://")):
        raise HttpError("%s is not an http:// or https:// address" % url)
    headers = {"Accept": "*/*", "Connection": "close"}
    data = None
    if payload is not None:
        headers["Content-Type"] = "application/json"
        data = json.dumps(payload).encode("utf-8")
    if api_key:
        headers["Authorization"] = "Bearer %s" % api_key
    # An environment's http_proxy must not send loopback questions elsewhere; redirects are not followed
    # either, since an answer from another address proves nothing about this service.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects)
    deadline = time.monotonic() + timeout
    try:
        asked = urllib.request.Request(url, data=data, headers=headers, method=method)  # noqa: S310 - checked above
        with opener.open(asked, timeout=timeout) as response:
            return Answer(response.status, _read(response, url, deadline))
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, _read(error, url, deadline))
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise HttpError("%s: %s" % (url, reason)) from None


def get_json(url: str, timeout: float, api_key: Optional[str] = None) -> Any:
    """The JSON that GET `url` answers with status 200. Raises HttpError on anything else."""
    return _expect_json(url, request(url, timeout, api_key=api_key))


def post_json(url: str, payload: Mapping[str, Any], timeout: float, api_key: Optional[str] = None) -> Any:
    """The JSON that POST `payload` to `url` answers with status 200. Raises HttpError on anything else."""
    return _expect_json(url, request(url, timeout, payload=payload, api_key=api_key))


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def _read(response: Any, url: str, deadline: float) -> str:
    parts: list[bytes] = []
    size = 0
    try:
        while chunk := response.read1(_CHUNK) if hasattr(response, "read1") else response.read(_CHUNK):
            parts.append(chunk)
            size += len(chunk)
            if size > MAX_BYTES:
                raise HttpError("%s: the answer is larger than %d bytes" % (url, MAX_BYTES))
            if time.monotonic() > deadline:
                raise HttpError("%s: the answer did not end in time" % url)
    except (OSError, http.client.HTTPException) as error:
        raise HttpError("%s: the answer broke off: %s" % (url, error)) from None
    return b"".join(parts).decode("utf-8", "replace")


def _expect_json(url: str, answer: Answer) -> Any:
    if answer.status != 200:
        raise HttpError("%s answered %d" % (url, answer.status))
    try:
        return answer.json()
    except ValueError:
        raise HttpError("%s answered 200 without JSON" % url) from None
