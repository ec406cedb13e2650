"""The parent's side of generation: requests in, news out, and the scheduler's last known state."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from .messages import (
    Abort,
    Announce,
    Died,
    Flush,
    Flushed,
    Generate,
    Leave,
    Progress,
    Ready,
    SamplingParams,
    Step,
    TokenLogprobs,
)
from .metrics import Metrics
from .server_args import ServerArgs
from .tokenizer import Tokenizer

_log = logging.getLogger(__name__)


class RequestError(ValueError):
    """A request that cannot be served; the text is for the client."""


@dataclass
class Answer:
    """What is known of one request; grows with the news."""

    rid: str
    prompt_tokens: int
    block_size: int
    created: float = field(default_factory=time.time)
    text: str = ""
    ids: list[int] = field(default_factory=list)
    verify_calls: int = 0
    accepted: list[int] = field(default_factory=list)
    cached_tokens: int = 0
    finish: dict[str, Any] | None = None
    first_token_s: float | None = None
    ended_s: float | None = None
    rewritten: bool = False
    logprobs: list[TokenLogprobs] | None = None

    def add(self, news: Progress) -> None:
        """Take one step's news in."""
        self.text = news.text if news.whole else self.text + news.text
        self.rewritten = self.rewritten or news.whole
        self.ids += news.ids
        if self.logprobs is not None:
            self.logprobs += news.logprobs
        self.verify_calls = news.verify_calls
        self.accepted = news.accepted
        self.cached_tokens = news.cached_tokens
        self.finish = news.finish
        now = time.time() - self.created
        if self.first_token_s is None:
            self.first_token_s = now
        if news.finish is not None:
            self.ended_s = now

    def meta_info(self) -> dict[str, Any]:
        """``meta_info`` as in SGLang 0.5.14 and later; no spec_* keys without verify calls."""
        out: dict[str, Any] = {
            "id": self.rid,
            "finish_reason": self.finish,
            "prompt_tokens": self.prompt_tokens,
            "weight_version": "default",
            "total_retractions": 0,
            "completion_tokens": len(self.ids),
            "cached_tokens": self.cached_tokens,
            "e2e_latency": time.time() - self.created if self.ended_s is None else self.ended_s,
        }
        if self.logprobs is not None:
            out |= logprob_info(self.logprobs, self.ids)
        if self.verify_calls:
            correct = sum(count * number for number, count in enumerate(self.accepted))
            proposed = self.verify_calls * (self.block_size - 1)
            out |= {
                "spec_accept_rate": correct / proposed,
                "spec_accept_length": len(self.ids) / self.verify_calls,
                "spec_num_correct_drafts": correct,
                "spec_num_proposed_drafts": proposed,
                "spec_verify_ct": self.verify_calls,
                "spec_correct_drafts_histogram": list(self.accepted),
            }
        return out


def logprob_info(logprobs: list[TokenLogprobs], ids: list[int]) -> dict[str, Any]:
    """``output_token_logprobs`` and ``output_top_logprobs`` in SGLang's shape: [logprob, id, text]."""
    own = [[value, token, None] for (value, _), token in zip(logprobs, ids, strict=False)]
    best = [[[value, token, None] for value, token in row] for _, row in logprobs]
    return {"output_token_logprobs": own, "output_top_logprobs": best}


class TokenizerManager:
    """Sends requests to the scheduler and hands its news to whoever waits for them.

    ``draining`` is set by the server once it is to end: the endpoints take no new request then.
    """

    def __init__(
        self, args: ServerArgs, tokenizer: Tokenizer, link: Connection, ready: Ready, metrics: Metrics | None
    ) -> None:
        self.args = args
        self.ready = ready
        self.tokenizer = tokenizer
        self.metrics = metrics
        self.state: dict[str, Any] = {}
        self.last_news = 0.0
        self.draining = False
        self.on_leave: Callable[[str], None] = lambda reason: None
        self.on_death: Callable[[], None] = lambda: None
        self.on_rank_death: Callable[[Died], None] = lambda death: None
        self.on_announce: Callable[[], None] = lambda: None
        self._link = link
        self._queues: dict[str, asyncio.Queue[Progress]] = {}
        self._flushes: list[asyncio.Future[bool]] = []

    @property
    def open_requests(self) -> list[str]:
        """Ids of the requests without an answer yet."""
        return list(self._queues)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read the scheduler's messages in a thread, handle them in ``loop``."""
        threading.Thread(target=self._read, args=(loop,), daemon=True, name="scheduler-news").start()

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while True:
                message = self._link.recv()
                loop.call_soon_threadsafe(self._handle, message)
        except (EOFError, OSError):
            # A loop that is closed already has nobody left to tell.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(lambda: self.on_death())

    def _handle(self, message: object) -> None:
        if isinstance(message, Step):
            self.state = message.state
            self.last_news = time.time()
            for news in message.progress:
                queue = self._queues.get(news.rid)
                if queue is not None:
                    queue.put_nowait(news)
            if self.metrics is not None:
                self.metrics.update(message.state)
        elif isinstance(message, Flushed):
            for future in self._flushes:
                if not future.done():
                    future.set_result(message.done)
            self._flushes.clear()
        elif isinstance(message, Leave):
            self.on_leave(message.reason)
        elif isinstance(message, Died):
            self.on_rank_death(message)
        elif isinstance(message, Announce):
            self.on_announce()

    def check_length(self, ids: list[int]) -> None:
        """Raise RequestError for an empty or too long prompt."""
        limit = int(self.args["context_length"])
        if not ids:
            raise RequestError("The prompt is empty.")
        if len(ids) >= limit:
            raise RequestError(
                f"The input ({len(ids)} tokens) is longer than the model's context length ({limit} tokens)."
            )

    async def generate(
        self, ids: list[int], params: SamplingParams, rid: str | None = None
    ) -> AsyncIterator[Answer]:
        """The answer after each step, until it is finished. Closing the iterator early aborts the request."""
        self.check_length(ids)
        name = rid or uuid.uuid4().hex
        if name in self._queues:
            raise RequestError(f"rid {name!r} is in use.")
        answer = Answer(name, len(ids), self.args.block_size)
        if params.top_logprobs is not None:
            answer.logprobs = []
        queue: asyncio.Queue[Progress] = asyncio.Queue()
        self._queues[name] = queue
        self._link.send(Generate(name, ids, params))
        try:
            while answer.finish is None:
                answer.add(await queue.get())
                if answer.finish is not None and self.metrics is not None:
                    self.metrics.finished(
                        answer.first_token_s or 0.0, time.time() - answer.created, len(answer.ids)
                    )
                yield answer
        finally:
            del self._queues[name]
            if answer.finish is None:
                self._link.send(Abort(name))

    async def complete(self, ids: list[int], params: SamplingParams, rid: str | None = None) -> Answer:
        """The finished answer."""
        last: Answer | None = None
        async for answer in self.generate(ids, params, rid):
            last = answer
        if last is None:
            raise RequestError("No answer.")
        return last

    async def flush(self) -> bool:
        """Empty the prefix cache; False when requests are running."""
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._flushes.append(future)
        self._link.send(Flush())
        return await asyncio.wait_for(future, timeout=10)

    def close(self) -> None:
        """Order the scheduler to leave.

        Shut down, not only closed: the thread that waits for news keeps the socket open until it is woken.
        """
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self._link.fileno())) as link:
            link.shutdown(socket.SHUT_RDWR)
        self._link.close()
