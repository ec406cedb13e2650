"""/v1/chat/completions, /v1/completions and /v1/models."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from .chat import render_chat
from .http_common import error_answer, json_body, sampling_params, shutting_down, top_logprobs
from .messages import SamplingParams
from .sse import DONE, EventStream, until_disconnect
from .tokenizer_manager import Answer, RequestError, TokenizerManager

_DEFAULT_TOKENS = 1024


class OpenAiApi:
    """Chat and plain completions over one tokenizer manager."""

    def __init__(self, manager: TokenizerManager) -> None:
        self._manager = manager
        self._created = int(time.time())

    @property
    def _name(self) -> str:
        return str(self._manager.args["served_model_name"])

    async def models(self, request: Request) -> Response:
        """GET /v1/models."""
        card = {
            "id": self._name,
            "object": "model",
            "created": self._created,
            "owned_by": "sglang",
            "root": self._name,
            "parent": None,
            "max_model_len": self._manager.args["context_length"],
        }
        return JSONResponse({"object": "list", "data": [card]})

    async def chat(self, request: Request) -> Any:
        """POST /v1/chat/completions."""
        return await self._answer(request, chat=True)

    async def completions(self, request: Request) -> Any:
        """POST /v1/completions (one prompt, as text)."""
        return await self._answer(request, chat=False)

    async def _answer(self, request: Request, chat: bool) -> Any:
        if self._manager.draining:
            return shutting_down()
        try:
            if not request.headers.get("content-type", "").startswith("application/json"):
                raise RequestError("Content-Type must be application/json.")
            data = await json_body(request)
            ids = self._manager.tokenizer.encode(_prompt(data, chat))
            params = _params(data, top_logprobs(data, self._manager.args))
            self._manager.check_length(ids)
            if data.get("stream"):
                options = data.get("stream_options") or {}
                return EventStream(self._events(ids, params, chat, bool(options.get("include_usage"))))
            answer = await until_disconnect(request, self._manager.complete(ids, params))
        except ValueError as error:  # RequestError, or a malformed message
            return error_answer(str(error))
        if answer is None:
            return Response(status_code=499)
        return JSONResponse(self._whole(answer, chat))

    def _whole(self, answer: Answer, chat: bool) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": 0, "logprobs": self._logprobs(answer), **_finish(answer)}
        if chat:
            message = {"role": "assistant", "content": answer.text.lstrip(), "reasoning_content": None}
            choice["message"] = {**message, "tool_calls": None}
        else:
            choice["text"] = answer.text
        kind = "chat.completion" if chat else "text_completion"
        return {**self._head(answer, kind), "choices": [choice], "usage": _usage(answer), "metadata": {}}

    async def _events(
        self, ids: list[int], params: SamplingParams, chat: bool, usage: bool
    ) -> AsyncGenerator[Any, None]:
        kind = "chat.completion.chunk" if chat else "text_completion"
        sent = 0
        first = True
        last: Answer | None = None
        stream = self._manager.generate(ids, params)
        try:
            async for answer in stream:
                last = answer
                text = answer.text.lstrip() if chat else answer.text
                fresh, sent = text[sent:], max(sent, len(text))
                choice: dict[str, Any] = {"index": 0, "logprobs": None, **_finish(answer)}
                if chat:
                    delta = {"role": "assistant"} if first else {}
                    choice["delta"] = {
                        **delta,
                        "content": fresh,
                        "reasoning_content": None,
                        "tool_calls": None,
                    }
                else:
                    choice["text"] = fresh
                first = False
                yield {**self._head(answer, kind), "choices": [choice], "usage": None}
        finally:
            await stream.aclose()  # type: ignore[attr-defined]
        if usage and last is not None:
            yield {**self._head(last, kind), "choices": [], "usage": _usage(last)}
        yield DONE

    def _logprobs(self, answer: Answer) -> dict[str, Any] | None:
        if answer.logprobs is None:
            return None

        def row(value: float, token: int) -> dict[str, Any]:
            return {"token": self._manager.tokenizer.decode([token]), "logprob": value, "bytes": None}

        content = [
            {**row(value, token), "top_logprobs": [row(*other) for other in best]}
            for (value, best), token in zip(answer.logprobs, answer.ids, strict=False)
        ]
        return {"content": content}

    def _head(self, answer: Answer, kind: str) -> dict[str, Any]:
        return {"id": answer.rid, "object": kind, "created": int(answer.created), "model": self._name}


def _prompt(data: Mapping[str, Any], chat: bool) -> str:
    if not chat:
        prompt = data.get("prompt")
        if not isinstance(prompt, str):
            raise RequestError("prompt must be a text.")
        return prompt
    messages = data.get("messages")
    if (
        not isinstance(messages, list)
        or not messages
        or not all(isinstance(item, Mapping) for item in messages)
    ):
        raise RequestError("messages must be a list of at least one message.")
    return render_chat(messages)


def _params(data: Mapping[str, Any], logprobs: int | None) -> SamplingParams:
    tokens = data.get("max_completion_tokens")
    tokens = data.get("max_tokens") if tokens is None else tokens
    return sampling_params({**data, "max_new_tokens": tokens}, _DEFAULT_TOKENS, logprobs)


def _finish(answer: Answer) -> dict[str, Any]:
    finish = answer.finish or {}
    return {"finish_reason": finish.get("type"), "matched_stop": finish.get("matched")}


def _usage(answer: Answer) -> dict[str, Any]:
    completion = len(answer.ids)
    return {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": completion,
        "total_tokens": answer.prompt_tokens + completion,
        "prompt_tokens_details": {"cached_tokens": answer.cached_tokens},
    }
