"""SGLang's own endpoints: /generate, probes, /server_info, /model_info, /metrics, /flush_cache, /get_load."""

from __future__ import annotations

import asyncio
import logging
import shlex
import sys
import time
from collections.abc import AsyncGenerator
from enum import Enum
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from .http_common import error_answer, json_body, sampling_params
from .messages import SamplingParams
from .sse import DONE, EventStream, until_disconnect
from .tokenizer_manager import Answer, RequestError, TokenizerManager
from .version import __version__

_log = logging.getLogger(__name__)

HEALTH_TIMEOUT_S = 20.0


class Status(Enum):
    """State of the server as its probes see it."""

    STARTING = "Starting"
    UP = "Up"
    UNHEALTHY = "UnHealthy"
    DRAINING = "Draining"


class NativeApi:
    """Endpoints over one tokenizer manager; ``status`` is set by the server."""

    def __init__(self, manager: TokenizerManager, model_config: dict[str, Any], startup_s: float) -> None:
        self._manager = manager
        self._model_config = model_config
        self._startup_s = startup_s
        self.status = Status.STARTING

    async def generate(self, request: Request) -> Any:
        """POST /generate: one ``text`` or ``input_ids``."""
        if self.status is Status.DRAINING:
            return error_answer("The server is shutting down.", 503)
        try:
            data = await json_body(request)
            params = sampling_params(data.get("sampling_params") or {})
            ids = self._ids(data)
            self._manager.check_length(ids)
            rid = data.get("rid")
            if data.get("stream"):
                return EventStream(self._events(ids, params, rid))
            answer = await until_disconnect(request, self._manager.complete(ids, params, rid))
        except RequestError as error:
            return error_answer(str(error))
        return Response(status_code=499) if answer is None else JSONResponse(_generated(answer))

    def _ids(self, data: Any) -> list[int]:
        text, ids = data.get("text"), data.get("input_ids")
        if isinstance(text, str):
            return self._manager.tokenizer.encode(text)
        size = self._manager.tokenizer.size
        if isinstance(ids, list) and all(isinstance(number, int) and 0 <= number < size for number in ids):
            return ids
        raise RequestError(f"Either text (one text) or input_ids (numbers below {size}) should be provided.")

    async def _events(
        self, ids: list[int], params: SamplingParams, rid: str | None
    ) -> AsyncGenerator[Any, None]:
        stream = self._manager.generate(ids, params, rid)
        try:
            async for answer in stream:
                yield _generated(answer)
        except RequestError as error:
            # SGLang answers 200 and puts the error into the stream.
            yield {
                "error": {"message": str(error), "type": "BadRequestError", "code": 400, "retryable": False}
            }
        finally:
            await stream.aclose()  # type: ignore[attr-defined]
        yield DONE

    async def health(self, request: Request) -> Response:
        """GET /health, /health_generate: 200 once anything came back from the scheduler since the request."""
        if self.status in (Status.STARTING, Status.DRAINING):
            return Response(status_code=503)
        began = time.time()
        probe = asyncio.ensure_future(self._manager.complete([1], SamplingParams(0.0, 1)))
        try:
            while time.time() - began < HEALTH_TIMEOUT_S:
                # Under load the probe waits in the queue; any other sign of life will do.
                await asyncio.wait({probe}, timeout=0.5)
                if probe.done() or self._manager.last_news > began:
                    self.status = Status.UP
                    return Response(status_code=200)
        finally:
            probe.cancel()
        self.status = Status.UNHEALTHY
        _log.error(
            "Health check failed. Server couldn't get a response from detokenizer for last %d seconds.",
            int(HEALTH_TIMEOUT_S),
        )
        return Response(status_code=503)

    async def ready(self, request: Request) -> Response:
        """GET /ready, /ping: no generation."""
        return Response(status_code=200 if self.status is Status.UP else 503)

    async def model_info(self, request: Request) -> Response:
        """GET /model_info."""
        args = self._manager.args
        return JSONResponse(
            {
                "model_path": args["model_path"],
                "served_model_name": args["served_model_name"],
                "tokenizer_path": args["tokenizer_path"],
                "is_generation": True,
                "weight_version": "default",
                "load_format": args["load_format"],
                "architectures": self._model_config.get("architectures"),
                "model_type": self._model_config.get("model_type"),
                "treeline_key": self._model_config.get("treeline_key"),
            }
        )

    async def server_info(self, request: Request) -> Response:
        """GET /server_info: the resolved arguments, flat, and the state."""
        if request.url.path == "/get_server_info":
            _log.warning("Endpoint '/get_server_info' is deprecated. Please use '/server_info' instead.")
        manager = self._manager
        args = manager.args
        state = manager.state
        gauges = state.get("gauges", {})
        internal: dict[str, Any] = {
            "world_size": args["tp_size"],
            "startup_time": self._startup_s,
            "effective_max_running_requests_per_dp": args["max_running_requests"],
            "last_gen_throughput": gauges.get("gen_throughput", 0.0),
            "memory_usage": {},
            "decode_cuda_graph_bs": manager.ready.capture_sizes,
            "running_requests": state.get("running", 0),
            "queued_requests": state.get("waiting", 0),
            "simulated": state.get("simulated", {}),
        }
        if "avg_spec_accept_length" in state:
            internal["avg_spec_accept_length"] = state["avg_spec_accept_length"]
        return JSONResponse(
            {
                **args.values,
                "api_key": "******" if args["api_key"] else None,
                "launch_command": shlex.join(_masked(sys.argv)),
                **self._scheduler_info(),
                "startup_time": self._startup_s,
                "internal_states": [internal],
                "version": __version__,
                "engine": "reference",
                "simulated_timing": True,
                "fault": manager.ready.fault,
            }
        )

    def _scheduler_info(self) -> dict[str, Any]:
        """What the scheduler measured; SGLang puts it flat among the arguments."""
        tokens = self._manager.ready.max_total_num_tokens
        return {
            "status": "ready",
            "max_total_num_tokens": tokens,
            "max_req_input_len": min(int(self._manager.args["context_length"]), tokens) - 6,
        }

    async def metrics(self, request: Request) -> Response:
        """GET /metrics; 404 without --enable-metrics."""
        if self._manager.metrics is None:
            return Response(status_code=404)
        return Response(self._manager.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def flush_cache(self, request: Request) -> Response:
        """GET or POST /flush_cache."""
        if await self._manager.flush():
            return PlainTextResponse("Cache flushed.\nPlease check backend logs for more details.\n")
        return PlainTextResponse(
            "Cache not flushed: there are running or waiting requests.\n", status_code=400
        )

    async def get_load(self, request: Request) -> Response:
        """GET /get_load."""
        state = self._manager.state
        waiting, running = state.get("waiting", 0), state.get("running", 0)
        row = {"dp_rank": 0, "num_reqs": waiting + running, "num_waiting_reqs": waiting}
        return JSONResponse([{**row, "num_tokens": state.get("tokens", 0)}])


def _generated(answer: Answer) -> dict[str, Any]:
    return {"text": answer.text, "output_ids": list(answer.ids), "meta_info": answer.meta_info()}


def _masked(argv: list[str]) -> list[str]:
    """The command line without the API key."""
    out = []
    hide = False
    for word in argv:
        if hide:
            word, hide = "******", False
        elif word == "--api-key":
            hide = True
        elif word.startswith("--api-key="):
            word = "--api-key=******"
        out.append(word)
    return out
