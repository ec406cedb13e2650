"""Why a request failed, by what aiohttp or asyncio raised."""

from __future__ import annotations

import asyncio

import aiohttp

from .load_stream import SAID, RequestError, StreamError

# Kinds of errors that a peer leaves behind when it dies.
NOBODY_THERE = ("connect", "reset", "timeout_connect", "truncated")


def classify(error: BaseException, answered: bool) -> RequestError:
    """An error record for what aiohttp or asyncio raised; `answered`: the response had begun."""
    text = "%s: %s" % (type(error).__name__, error) if str(error) else type(error).__name__
    if isinstance(error, StreamError):
        return error.error
    if isinstance(error, aiohttp.ServerTimeoutError):
        kind = "timeout_connect"
    elif isinstance(error, asyncio.TimeoutError):
        kind = "timeout_request"
    elif isinstance(error, aiohttp.ClientConnectorError):
        kind = "connect"
    elif isinstance(error, (aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError)):
        was_reset = not answered or "reset by peer" in str(error)
        kind = "reset" if was_reset else "truncated"
    elif isinstance(error, (aiohttp.ClientOSError, ConnectionError, OSError)):
        kind = "reset"
    elif isinstance(error, aiohttp.ClientError):
        kind = "protocol"
    else:
        kind = "unexpected"
    return RequestError(kind, text[:SAID])
