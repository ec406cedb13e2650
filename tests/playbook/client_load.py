"""Clients of a router: open loop at a rate until a line arrives on standard input; the outcome as JSON.

Usage: client_load.py ROUTER_URL RATE TOKENS. Half of the requests are streamed. A request has failed when it
was not answered with 200, broke off, or (streamed) did not end with [DONE].
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import aiohttp


async def one(session: aiohttp.ClientSession, url: str, number: int, tokens: int, done: list[dict]) -> None:
    began, stream = time.monotonic(), number % 2 == 0
    body = {
        "model": "/opt/treeline/model",
        "stream": stream,
        "messages": [{"role": "user", "content": f"Count from {number}"}],
        "max_tokens": tokens,
        "ignore_eos": True,
    }
    try:
        async with session.post(f"{url}/v1/chat/completions", json=body) as answer:
            text = await answer.text()
            whole = answer.status == 200 and (not stream or "[DONE]" in text)
            said = "" if whole else f"{answer.status} {text[-200:]}"
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        whole, said = False, repr(error)[:200]
    done.append({"ok": whole, "seconds": time.monotonic() - began, "at": time.time(), "said": said})


async def main(url: str, rate: float, tokens: int) -> None:
    stop = asyncio.create_task(asyncio.to_thread(sys.stdin.readline))
    done: list[dict] = []
    running: set[asyncio.Task] = set()
    began, number = time.monotonic(), 0
    timeout, connector = aiohttp.ClientTimeout(total=60), aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        while not stop.done():
            task = asyncio.create_task(one(session, url, number, tokens, done))
            running.add(task)
            task.add_done_callback(running.discard)
            number += 1
            await asyncio.sleep(max(0.0, number / rate - (time.monotonic() - began)))
        seconds = time.monotonic() - began
        await asyncio.gather(*running)
    good = sorted(each["seconds"] for each in done if each["ok"])
    bad = [each for each in done if not each["ok"]]
    print(
        json.dumps(
            {
                "sent": number,
                "failed": len(bad),
                "rate": number / seconds,
                "shortest_s": good[0] if good else None,
                "median_s": good[len(good) // 2] if good else None,
                "failures": bad[:5],
            }
        )
    )


asyncio.run(main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3])))
