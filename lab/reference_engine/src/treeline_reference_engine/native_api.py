"""SGLang's own endpoints: /generate, probes, /server_info, /model_info, /metrics, /flush_cache, /get_load."""

from __future__ import annotations

import asyncio
import itertools
import logging
import shlex
import sys
import time
from collections.abc import AsyncGenerator
from enum import Enum
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from .frames import NativeFrames
from .http_common import error_answer, json_body, sampling_params, shutting_down, top_logprobs
from .messages import PROBE_PREFIX, SamplingParams
from .sse import DONE, EventStream, until_disconnect
from .tokenizer_manager import Answer, RequestError, TokenizerManager
from .version import __version__

_log = logging.getLogger(__name__)

HEALTH_TIMEOUT_S = 20.0
_IDLE = {"waiting": 0, "running": 0, "tokens": 0}


class Status(Enum):
    """State of the server as its probes see it."""

    STARTING = "Starting"
    UP = "Up"
    UNHEALTHY = "UnHealthy"


class NativeApi:
    """Endpoints over one tokenizer manager; ``status`` is set by the server."""

    def __init__(
        self,
        manager: TokenizerManager,
        model_config: dict[str, Any],
        startup_s: float,
        answers_probes: bool = False,
    ) -> None:
        self._manager = manager
        self._answers_probes = answers_probes  # although nothing is generated (a fault profile)
        self._model_config = model_config
        self._startup_s = startup_s
        self._probes = itertools.count()
        self.status = Status.STARTING

    async def generate(self, request: Request) -> Any:
        """POST /generate: one ``text`` or ``input_ids``."""
        if self._manager.draining:
            return shutting_down()
        try:
            data = await json_body(request)
            wanted = top_logprobs(data, self._manager.args)
            params = sampling_params(data.get("sampling_params") or {}, logprobs=wanted)
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
        frames = NativeFrames()
        try:
            async for answer in stream:
                yield frames.frame(answer)
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
        if self.status is Status.STARTING or self._manager.draining:
            return Response(status_code=503)
        if self._answers_probes:
            return Response(status_code=200)
        began = time.time()
        name = f"{PROBE_PREFIX}{next(self._probes)}"
        probe = asyncio.ensure_future(self._manager.complete([1], SamplingParams(0.0, 1), name))
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
        up = self.status is Status.UP and not self._manager.draining
        return Response(status_code=200 if up else 503)

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
        states = [self._internal_state(lane) for lane in manager.state.get("lanes", [{}] * args.dp_size)]
        states[0]["simulated"] = manager.state.get("simulated", {})  # lanes step together: one clock for all
        return JSONResponse(
            {
                **args.values,
                "api_key": "******" if args["api_key"] else None,
                "launch_command": shlex.join(_masked(sys.argv)),
                **self._scheduler_info(),
                "startup_time": self._startup_s,
                "internal_states": states,
                "version": __version__,
                "engine": "reference",
                "simulated_timing": True,
                "fault": manager.ready.fault,
            }
        )

    def _internal_state(self, lane: dict[str, Any]) -> dict[str, Any]:
        """One data-parallel rank. Several ranks: an acceptance length that is not known yet is null."""
        args = self._manager.args
        out: dict[str, Any] = {
            "world_size": args["tp_size"],
            "startup_time": self._startup_s,
            "effective_max_running_requests_per_dp": args["max_running_requests"],
            "last_gen_throughput": lane.get("gauges", {}).get("gen_throughput", 0.0),
            "memory_usage": {},
            "decode_cuda_graph_bs": self._manager.ready.capture_sizes,
            "running_requests": lane.get("running", 0),
            "queued_requests": lane.get("waiting", 0),
        }
        length = lane.get("avg_spec_accept_length")
        if length is not None or args.dp_size > 1:
            out["avg_spec_accept_length"] = length
        return out

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
        return JSONResponse(
            [
                {
                    "dp_rank": number,
                    "num_reqs": lane["waiting"] + lane["running"],
                    "num_waiting_reqs": lane["waiting"],
                    "num_tokens": lane["tokens"],
                }
                for number, lane in enumerate(self._manager.state.get("lanes", []) or [_IDLE])
            ]
        )


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
