"""Right, wrong, endless and hostile answers of a model, run in real transient units."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest
import yaml
from found_host import BINDS, REPOSITORY, FoundHost
from treeline import material
from treeline_lab import Lab
from treeline_target import coding

pytestmark = pytest.mark.lab

NAME, ADDRESS = "coding1", "10.66.0.88"
RUNNER = """
import json, sys
sys.path.insert(0, "/opt/target")
from treeline_target import coding
given = json.load(sys.stdin)
if "canaries" in given:
    print(json.dumps(coding.check_answers(given["canaries"], given["answers"])))
else:
    print(json.dumps(coding.run(coding.Task(**given)).as_dict()))
"""


@pytest.fixture(scope="module")
def host(make_lab: Callable[[str], Lab]) -> FoundHost:
    """A host that sees the target package."""
    lab = make_lab("coding")
    lab.up({NAME: ADDRESS}, binds=BINDS)
    return FoundHost(lab, NAME)


def on_target(host: FoundHost, given: Any) -> Any:
    """Call the package inside the host."""
    process = host.popen(
        "/usr/bin/env",
        "PYTHONDONTWRITEBYTECODE=1",
        "/usr/bin/python3",
        "-c",
        f"import io,sys;sys.stdin=io.StringIO({json.dumps(given)!r})\n{RUNNER}",
    )
    out, complaint = process.communicate(timeout=120)
    assert process.returncode == 0, complaint
    return json.loads(out)


def run(host: FoundHost, code: str, check: str) -> dict[str, Any]:
    return dict(on_target(host, asdict(coding.Task("t", "single", code, check))))


def test_the_shipped_tasks_pass_with_the_right_answers_and_fail_with_others(host: FoundHost) -> None:
    right = yaml.safe_load((REPOSITORY / "lab/reference_engine/training/answers.yml").read_text("utf-8"))
    canaries = material.canaries()
    answers = [{"id": one["id"], "phase": "single", "got": right[one["id"]]} for one in canaries]
    broken = [
        {**answer, "phase": "busiest", "got": str(answer["got"]).replace("return", "return 0 *")}
        for answer in answers
    ]
    rows = on_target(host, {"canaries": canaries, "answers": [*answers, *answers, *broken]})
    assert [(row["phase"], row["outcome"]) for row in rows] == (
        [("single", "passed")] * 10 + [("busiest", "failed")] * 5
    ), rows
    assert len({row["id"] for row in rows}) == 5


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("def f():\n    return 1", "AssertionError"),
        ("def f(:", "SyntaxError"),
        ("import os\nos._exit(0)", "it ended with 0"),
        ("raise SystemExit(0)", "SystemExit"),
        ("print('x' * 10**7)\nraise ValueError('much was said')", "much was said"),
        ("held = b'x' * (2 * 10**9)", "it was killed: oom-kill|MemoryError"),
    ],
)
def test_wrong_code_fails_and_says_why(host: FoundHost, code: str, words: str) -> None:
    result = run(host, code, "assert f() == 2")
    assert result["outcome"] == "failed", result
    assert any(word in result["detail"] for word in words.split("|")), result


@pytest.mark.parametrize(
    "code", ["while True: pass", "import signal, time\nsignal.signal(15, 1)\ntime.sleep(600)"]
)
def test_endless_code_is_ended(host: FoundHost, code: str) -> None:
    began = time.monotonic()
    result = run(host, code, "")
    assert (result["outcome"], result["detail"]) == ("failed", "it did not end within 5 s")
    assert time.monotonic() - began < 5 + coding.GRACE_S
    assert (
        "treeline-coding" not in host.run("systemctl", "list-units", "--all", "--plain", "--no-legend").stdout
    )


FORKS = """
import os, time
children = 0
try:
    while children < 100:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        children += 1
except OSError:
    pass
"""


def test_processes_are_few_and_none_is_left(host: FoundHost) -> None:
    began = time.monotonic()
    result = run(host, FORKS, "assert 0 < children < 16, children")
    assert result["outcome"] == "passed", result
    assert time.monotonic() - began < coding.GRACE_S
    assert (
        "treeline-coding" not in host.run("systemctl", "list-units", "--all", "--plain", "--no-legend").stdout
    )


NOWHERE = """
import socket
for address in (("{listener}", 22), ("127.0.0.1", 22), ("10.66.0.1", 22)):
    try:
        socket.create_connection(address, timeout=2)
    except OSError as error:
        print(error)
    else:
        raise RuntimeError("reached %s" % (address,))
"""


def test_the_network_is_out_of_reach(host: FoundHost) -> None:
    reachable = NOWHERE.replace(
        "else:\n        raise", "else:\n        import sys; sys.exit(9)\n        raise"
    )
    code = NOWHERE.format(listener=ADDRESS)
    assert run(host, code, "")["outcome"] == "passed"
    # The same code outside reaches the host's own sshd: the test can fail.
    process = host.popen("/usr/bin/python3", "-c", reachable.format(listener=ADDRESS))
    process.communicate(timeout=30)
    assert process.returncode == 9


def test_nothing_outside_is_written_or_read(host: FoundHost) -> None:
    host.run("mkdir", "-p", "/run/treeline", "/root/secret", "/var/lib/treeline")
    host.run("/usr/bin/python3", "-c", "open('/run/treeline/lease.json','w').write('held')")
    host.run("chmod", "-R", "a+rwX", "/run/treeline", "/var/lib/treeline", "/root")
    code = """
import os
allowed = []
for folder in ("/", "/etc", "/run", "/run/treeline", "/var/lib/treeline", "/root", "/usr", "/dev", "/sys"):
    try:
        open(folder + "/planted", "w").close()
    except OSError:
        continue
    allowed.append(folder)
for path in ("/run/treeline/lease.json", "/root/secret/"):
    try:
        os.listdir(path) if path.endswith("/") else open(path).read()
    except OSError:
        continue
    allowed.append(path)
open("/tmp/planted", "w").write("x")
"""
    result = run(host, code, "assert not allowed, allowed")
    assert result["outcome"] == "passed", result
    found = host.run("find", "/", "-xdev", "-name", "planted", "-not", "-path", "/proc/*").stdout
    assert found == ""
    assert host.run("ls", "/run/treeline", "/var/lib/treeline").stdout.count("planted") == 0


def test_without_isolation_nothing_is_run(host: FoundHost) -> None:
    program = RUNNER.replace(
        "given = json.load(sys.stdin)", "coding.PROPERTIES = PROPERTIES\ngiven = json.load(sys.stdin)"
    )
    for left_out, why in (("PrivateNetwork=yes", "not shut in: interfaces"), ("DynamicUser=yes", "user 0")):
        kept = tuple(one for one in coding.PROPERTIES if one != left_out)
        task = json.dumps(asdict(coding.Task("t", "single", "", "")))
        text = f"import io,sys;sys.stdin=io.StringIO({task!r})\nPROPERTIES = {kept!r}\n{program}"
        process = host.popen("/usr/bin/env", "PYTHONDONTWRITEBYTECODE=1", "/usr/bin/python3", "-c", text)
        out, complaint = process.communicate(timeout=60)
        assert process.returncode == 0, complaint
        result = json.loads(out)
        assert result["outcome"] == "not available", result
        assert why in result["detail"], result
