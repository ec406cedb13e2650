"""The drain of treeline_target.router against a real SGLang router whose workers are small HTTP servers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from treeline_lab import router
from treeline_lab.lab import Lab

pytestmark = pytest.mark.lab

REPO = Path(__file__).resolve().parents[2]
ADDRESS = "10.66.0.39"
WORKERS = (f"http://{ADDRESS}:31801", f"http://{ADDRESS}:31802")

# Answers what a router asks of a worker, and a chat request after two seconds.
WORKER = """
import asyncio, json, sys
from aiohttp import web
running = 0
async def chat(request):
    global running
    running += 1
    try:
        await asyncio.sleep(2)
        return web.json_response({"choices": [], "worker": sys.argv[1]})
    finally:
        running -= 1
async def load(request):
    return web.json_response([{"dp_rank": 0, "num_reqs": running, "num_waiting_reqs": 0}])
async def plain(request):
    return web.json_response({"model_path": "m", "served_model_name": "m"})
app = web.Application()
app.router.add_post("/v1/chat/completions", chat)
app.router.add_get("/get_load", load)
for path in ("/health", "/server_info", "/model_info", "/v1/models"):
    app.router.add_get(path, plain)
web.run_app(app, host="0.0.0.0", port=int(sys.argv[1]), print=None)
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """A router host that also runs two workers."""
    one = Lab(f"test-{os.getpid()}-router")
    one.down()
    try:
        router.up(one, "router", ADDRESS)
        for port in ("31801", "31802"):
            started = one.host("router").enter(
                [
                    *(
                        "systemd-run",
                        "--quiet",
                        f"--unit=worker-{port}",
                        "/usr/bin/python3",
                        "-c",
                        WORKER,
                        port,
                    ),
                ]
            )
            assert started.returncode == 0, started.stderr
        yield one
    finally:
        one.down()


def inside(lab: Lab, text: str) -> dict[str, object]:
    """Run Python in the lab's network, with the target code to be tested; the JSON that it prints."""
    head = f"""
        import json, threading, time
        from treeline_target import http
        from treeline_target.router import Router, RouterError
        one, other = (Router("http://{ADDRESS}:{router.PORT}", url) for url in {WORKERS!r})
        def ask(_=None):
            body = {{"model": "m", "messages": [{{"role": "user", "content": "hi"}}]}}
            answers.append(http.request(one.router_url + "/v1/chat/completions", 30, payload=body).status)
        answers = []
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                one.workers()
                break
            except RouterError:
                time.sleep(0.2)
        """
    done = subprocess.run(
        [
            *("ip", "netns", "exec", f"tl-{lab.name}", sys.executable, "-c"),
            textwrap.dedent(head) + textwrap.dedent(text),
        ],
        env={**os.environ, "PYTHONPATH": str(REPO / "plugins/module_utils")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_a_drain_waits_for_running_requests_and_none_is_lost(lab: Lab) -> None:
    found = inside(
        lab,
        """
        one.register(30), other.register(30)
        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        began = time.monotonic()
        drained = one.drain(30)
        seconds = time.monotonic() - began
        again = one.drain(30)
        ask()
        for thread in threads:
            thread.join()
        listed = len(one.find())
        back = (one.register(30), one.register(30))
        print(json.dumps({"drained": drained, "seconds": seconds, "again": again, "answers": answers,
                          "listed": listed, "back": back}))
        """,
    )
    assert found["answers"] == [200] * 7
    assert found["drained"] == [True, ""]
    assert 1 < float(str(found["seconds"])) < 10
    assert found["again"] == [False, ""]
    assert found["listed"] == 0
    assert found["back"] == [True, False]


def test_requests_that_do_not_end_in_time_leave_the_worker_listed(lab: Lab) -> None:
    found = inside(
        lab,
        """
        one.register(30), other.register(30)
        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        try:
            one.drain(0.3)
            said = "drained"
        except RouterError as error:
            said = str(error)
        for thread in threads:
            thread.join()
        print(json.dumps({"said": said, "listed": len(one.find()), "answers": answers}))
        """,
    )
    assert "still has 1 running" in str(found["said"])
    assert found["listed"] == 1
    assert found["answers"] == [200, 200]


def test_the_last_worker_stays_unless_that_is_allowed(lab: Lab) -> None:
    found = inside(
        lab,
        """
        one.register(30), other.register(30)
        other.drain(30)
        try:
            one.drain(30)
            said = "drained"
        except RouterError as error:
            said = str(error)
        listed = len(one.find())
        allowed = one.drain(30, allow_last=True)
        one.register(30), other.register(30)
        print(json.dumps({"said": said, "listed": listed, "allowed": allowed}))
        """,
    )
    assert "is the last healthy worker" in str(found["said"])
    assert found["listed"] == 1
    assert found["allowed"] == [True, ""]


def test_a_worker_that_is_down_is_idle_and_never_becomes_listed_as_healthy(lab: Lab) -> None:
    found = inside(
        lab,
        """
        gone = Router(one.router_url, "http://127.0.0.1:31809")
        drained = gone.drain(5)
        try:
            gone.register(3)
            said = "registered"
        except RouterError as error:
            said = str(error)
        print(json.dumps({"drained": drained, "said": said}))
        """,
    )
    assert found["drained"] == [False, "nothing answers at http://127.0.0.1:31809, so nothing runs there"]
    assert "does not list it" in str(found["said"])


@pytest.mark.parametrize(
    "flags", [("--api-key", "the-key"), ("--control-plane-api-keys", "t:T:admin:the-key")]
)
def test_a_router_that_wants_a_key_gets_the_one_of_the_file(lab: Lab, flags: tuple[str, str]) -> None:
    port = 31001
    command = (
        *("systemd-run", "--quiet", "--collect", "--unit=keyed-router"),
        *(f"--setenv=PYTHONPATH={router.FOLDER}", "/usr/bin/python3", "-m", "sglang_router.launch_router"),
        *("--host", ADDRESS, "--port", str(port), "--prometheus-port", "29001", *flags),
    )
    assert lab.host("router").enter(list(command)).returncode == 0
    try:
        found = inside(
            lab,
            f"""
            keyed = dict(router_url="http://{ADDRESS}:{port}", worker_url=one.worker_url)
            right = Router(router_key="the-key", **keyed)
            while True:
                try:
                    right.workers()
                    break
                except RouterError:
                    assert time.monotonic() < deadline, "the router does not answer"
                    time.sleep(0.2)
            said = []
            for key in (None, "another"):
                try:
                    Router(router_key=key, **keyed).register(1)
                except RouterError as error:
                    said.append(str(error))
            back = (right.register(30), right.register(30))
            drained = right.drain(30, allow_last=True)
            print(json.dumps({{"said": said, "back": back, "drained": drained}}))
            """,
        )
    finally:
        lab.host("router").enter(["systemctl", "stop", "keyed-router"])
    said = list(found["said"])  # type: ignore[call-overload]
    assert len(said) == 2
    assert all("answered 401" in each for each in said)
    assert found["back"] == [True, False]
    assert found["drained"] == [True, ""]
