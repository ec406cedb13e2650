"""What the endpoints share: bodies, sampling parameters, error answers, the API key."""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse

from .messages import SamplingParams
from .tokenizer_manager import RequestError

_Receive = Callable[[], Awaitable[Any]]
_Send = Callable[[Any], Awaitable[None]]
_App = Callable[[Any, _Receive, _Send], Awaitable[None]]

# As in SGLang, probes do without the key.
_OPEN_PATHS = ("/health", "/health_generate", "/ready", "/ping", "/metrics")


async def json_body(request: Request) -> Mapping[str, Any]:
    """The body as a mapping. Raises RequestError."""
    try:
        data = json.loads(await request.body())
    except ValueError as error:
        raise RequestError(f"The body is not JSON: {error}") from error
    if not isinstance(data, Mapping):
        raise RequestError(f"The body must be a JSON object, not {type(data).__name__}.")
    return data


def sampling_params(data: Mapping[str, Any], default_tokens: int = 128) -> SamplingParams:
    """From ``temperature``, ``max_new_tokens``, ``ignore_eos`` and ``stop``. Raises RequestError.

    SGLang's default temperature is 1.0; so is this one.
    """
    temperature = data.get("temperature")
    tokens = data.get("max_new_tokens")
    stop = data.get("stop") or ()
    if isinstance(stop, str):
        stop = (stop,)
    temperature = 1.0 if temperature is None else temperature
    tokens = default_tokens if tokens is None else tokens
    if isinstance(temperature, bool) or not isinstance(temperature, (int, float)) or temperature < 0:
        raise RequestError(f"temperature must be a number >= 0, but got {temperature!r}.")
    if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 1:
        raise RequestError(f"max_new_tokens must be a whole number >= 1, but got {tokens!r}.")
    if not all(isinstance(item, str) and item for item in stop):
        raise RequestError("stop must be a text or a list of texts.")
    return SamplingParams(float(temperature), tokens, bool(data.get("ignore_eos", False)), tuple(stop))


def error_answer(message: str, status: int = 400) -> JSONResponse:
    """An error in OpenAI's shape."""
    kind = {400: "BadRequestError", 401: "Unauthorized", 503: "ServiceUnavailable"}.get(status, "Error")
    body = {"object": "error", "message": message, "type": kind, "param": None, "code": status}
    return JSONResponse(
        {**body, "error": {"message": message, "type": kind, "code": status}}, status_code=status
    )


class ApiKey:
    """ASGI wrapper: 401 without ``Authorization: Bearer KEY``, probes excepted."""

    def __init__(self, app: _App, key: str | None) -> None:
        self._app = app
        self._expected = f"Bearer {key}".encode() if key else None

    async def __call__(self, scope: Any, receive: _Receive, send: _Send) -> None:
        if self._expected is not None and scope["type"] == "http" and scope["path"] not in _OPEN_PATHS:
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, self._expected):
                await error_answer("Unauthorized", 401)(scope, receive, send)
                return
        await self._app(scope, receive, send)
