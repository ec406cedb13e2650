"""What the endpoints share: bodies, sampling parameters, error answers, the API key."""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse

from .messages import SamplingParams
from .server_args import ServerArgs
from .tokenizer_manager import RequestError

_Receive = Callable[[], Awaitable[Any]]
_Send = Callable[[Any], Awaitable[None]]
_App = Callable[[Any, _Receive, _Send], Awaitable[None]]

_MOST_LOGPROBS = 20
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


def top_logprobs(data: Mapping[str, Any], args: ServerArgs) -> int | None:
    """Alternatives asked for by ``return_logprob`` and ``top_logprobs_num``, or OpenAI's ``logprobs``."""
    if not (data.get("return_logprob") or data.get("logprobs")):
        return None
    if args["refuse_logprob"] and args["speculative_algorithm"] == "DDTREE":
        raise RequestError("DDTREE speculative decoding does not support return_logprob yet.")
    wanted = data.get("top_logprobs_num") or data.get("top_logprobs") or 0
    if isinstance(wanted, bool) or not isinstance(wanted, int) or not 0 <= wanted <= _MOST_LOGPROBS:
        raise RequestError(f"top_logprobs_num must be 0 to {_MOST_LOGPROBS}, but got {wanted!r}.")
    return wanted


def sampling_params(
    data: Mapping[str, Any], default_tokens: int = 128, logprobs: int | None = None
) -> SamplingParams:
    """From ``temperature``, ``max_new_tokens``, ``ignore_eos``, ``stop`` and a seed. Raises RequestError.

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
    seed = data.get("sampling_seed", data.get("seed"))
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise RequestError(f"sampling_seed must be a whole number, but got {seed!r}.")
    ignore_eos = bool(data.get("ignore_eos", False))
    return SamplingParams(float(temperature), tokens, ignore_eos, tuple(stop), seed, logprobs)


def error_answer(message: str, status: int = 400) -> JSONResponse:
    """An error in OpenAI's shape."""
    kind = {
        400: "BadRequestError",
        401: "Unauthorized",
        429: "TooManyRequests",
        503: "ServiceUnavailable",
    }.get(status, "Error")
    body = {"object": "error", "message": message, "type": kind, "param": None, "code": status}
    return JSONResponse(
        {**body, "error": {"message": message, "type": kind, "code": status}}, status_code=status
    )


def shutting_down() -> JSONResponse:
    """What a server that drains answers to a new request."""
    return error_answer("The server is shutting down.", 503)


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
