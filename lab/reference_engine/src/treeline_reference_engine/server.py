"""HTTP service over a ready scheduler: opens the port, warms up, drains."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvicorn

from . import logs
from .app import build_app
from .faults import Fault
from .http_faults import wrap
from .launcher import Launcher
from .messages import Ready
from .metrics import Metrics
from .model import NgramModel
from .native_api import NativeApi, Status
from .openai_api import OpenAiApi
from .server_args import ServerArgs
from .tokenizer_manager import TokenizerManager

_log = logging.getLogger(__name__)

_DRAIN_LOG_S = 5.0


class _Uvicorn(uvicorn.Server):
    """uvicorn without its signal handlers: this program drains first. The hook's name varies by version."""

    def install_signal_handlers(self) -> None:
        return

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Server:
    """HTTP service over a ready scheduler."""

    def __init__(
        self,
        args: ServerArgs,
        launcher: Launcher,
        ready: Ready,
        config: dict[str, Any],
        began: float,
        fault: Fault | None,
    ) -> None:
        self._args = args
        self._launcher = launcher
        metrics = Metrics(args) if args["enable_metrics"] else None
        tokenizer = NgramModel.load_tokenizer(Path(args["model_path"]))
        self._manager = TokenizerManager(args, tokenizer, launcher.link, ready, metrics)
        self._manager.on_leave = self._leave
        probes = fault is not None and fault.health
        self._native = NativeApi(self._manager, config, time.monotonic() - began, probes)
        app = wrap(build_app(self._native, OpenAiApi(self._manager), args["api_key"]), fault)
        level = args["log_level"]
        self._uvicorn = _Uvicorn(
            uvicorn.Config(
                app,
                host=args["host"],
                port=args["port"],
                log_level=level,
                log_config=logs.uvicorn_config(level),
            )
        )
        self._drain: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Serve until drained. Raises SystemExit when uvicorn cannot bind."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._terminate, number)
        self._manager.on_death = self._scheduler_gone
        self._manager.on_rank_death = self._launcher.rank_died
        self._manager.on_announce = self._launcher.announce
        self._manager.start(loop)
        if self._args["skip_server_warmup"]:
            self._up()
        else:
            threading.Thread(target=self._warm_up, args=(loop,), daemon=True, name="warm-up").start()
        await self._uvicorn.serve()
        self._manager.on_death = lambda: None
        self._manager.close()
        self._launcher.stop()

    def _scheduler_gone(self) -> None:
        if not self._uvicorn.should_exit:
            self._launcher.died_in_service()

    def _up(self) -> None:
        if self._native.status is Status.STARTING and not self._manager.draining:
            self._native.status = Status.UP
            _log.info("The server is fired up and ready to roll!")

    def _warm_up(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            warm_up(self._args)
        except (OSError, http.client.HTTPException, RuntimeError) as error:
            if self._manager.draining or self._uvicorn.should_exit:
                return
            _log.error("Initialization failed. warmup error: %s", error)
            os.kill(os.getpid(), signal.SIGQUIT)
            return
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._up)

    def _terminate(self, number: int) -> None:
        _log.info("SIGTERM received. signum=%d frame=None. Draining requests and shutting down...", number)
        self._begin_drain()

    def _leave(self, reason: str) -> None:
        _log.info("Leaving: %s.", reason)
        self._begin_drain()

    def _begin_drain(self) -> None:
        if self._drain is None:
            self._manager.draining = True
            self._drain = asyncio.get_running_loop().create_task(self._drain_and_exit())

    async def _drain_and_exit(self) -> None:
        # No upper bound, as in SGLang: the service manager's stop timeout decides.
        said = 0.0
        while True:
            open_requests = self._manager.open_requests
            if time.monotonic() - said >= _DRAIN_LOG_S or not open_requests:
                said = time.monotonic()
                _log.info(
                    "Gracefully exiting... Remaining number of requests %d. "
                    "Remaining requests remaining_rids=%s.",
                    len(open_requests),
                    open_requests[:8],
                )
            if not open_requests:
                break
            await asyncio.sleep(0.05)
        self._uvicorn.should_exit = True


def warm_up(args: ServerArgs) -> None:
    """GET /model_info until it answers, then one generation of 8 tokens, over HTTP. Raises on failure."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(args["host"], args["host"])  # noqa: S104
    headers = {"Authorization": f"Bearer {args['api_key']}"} if args["api_key"] else {}
    deadline = time.monotonic() + 120
    while True:
        try:
            _request(host, args["port"], "GET", "/model_info", headers, None, timeout=5)
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
    body = json.dumps(
        {"text": "The capital city of France is", "sampling_params": {"temperature": 0, "max_new_tokens": 8}}
    )
    _request(host, args["port"], "POST", "/generate", headers, body, timeout=600)


def _request(
    host: str, port: int, method: str, path: str, headers: dict[str, str], body: str | None, timeout: float
) -> None:
    link = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        link.request(method, path, body, {**headers, "Content-Type": "application/json"})
        answer = link.getresponse()
        text = answer.read().decode(errors="replace")
        if answer.status != 200:
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:200]}")
    finally:
        link.close()
