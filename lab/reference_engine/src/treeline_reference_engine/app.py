"""The HTTP application: routes, and the API key in front of them."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.routing import Route

from .http_common import ApiKey
from .native_api import NativeApi
from .openai_api import OpenAiApi


def build_app(native: NativeApi, openai: OpenAiApi, api_key: str | None) -> ApiKey:
    """The ASGI application."""
    get, post, both = ["GET"], ["POST"], ["GET", "POST"]
    routes = [
        Route("/health", native.health, methods=get),
        Route("/health_generate", native.health, methods=get),
        Route("/ready", native.ready, methods=get),
        Route("/ping", native.ready, methods=both),
        Route("/server_info", native.server_info, methods=get),
        Route("/get_server_info", native.server_info, methods=get),
        Route("/model_info", native.model_info, methods=get),
        Route("/get_model_info", native.model_info, methods=get),
        Route("/generate", native.generate, methods=both),
        Route("/metrics", native.metrics, methods=get),
        Route("/metrics/", native.metrics, methods=get),
        Route("/flush_cache", native.flush_cache, methods=both),
        Route("/get_load", native.get_load, methods=get),
        Route("/v1/models", openai.models, methods=get),
        Route("/v1/chat/completions", openai.chat, methods=post),
        Route("/v1/completions", openai.completions, methods=post),
    ]
    return ApiKey(Starlette(routes=routes), api_key)
