"""Run the code that canaries answered: a smoke test of whether it does what was asked, shut in by systemd.

Five tasks are no benchmark (a model that solves four in five solves five of five one time in three), and the
gate says so. What comes from a model is run by nobody's rights: each answer gets a transient unit with a user
of its own, a network of its own (no way out), a private /tmp, a file system it can only read, and bounds on
memory, processes, file size and time. Where that isolation is not there, nothing is run.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import deque
from dataclasses import asdict, dataclass
from typing import Any, Iterable, Mapping, Optional, Sequence

from . import systemd

RUN_S = 5
# Beyond the bound of the unit itself: starting it, and systemd's killing of what is left.
GRACE_S = 10
_SAID = 300
_KEPT = 4096
_PASSED = 77
_NOT_SHUT_IN = 78
_UNITS = itertools.count(1)
_FENCED = re.compile(r"```[A-Za-z0-9_+-]*[ \t]*\n(.*?)(?:\n```|\Z)", re.DOTALL)
_RESULT = re.compile(r"Finished with result: ([a-z-]+)")

PROPERTIES = (
    "DynamicUser=yes",
    "PrivateNetwork=yes",
    "PrivateTmp=yes",
    "PrivateDevices=yes",
    "PrivateIPC=yes",
    "ProtectSystem=strict",
    "ProtectHome=yes",
    "ProtectProc=invisible",
    "ProtectControlGroups=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelTunables=yes",
    "NoNewPrivileges=yes",
    "CapabilityBoundingSet=",
    "RestrictNamespaces=yes",
    "RestrictAddressFamilies=AF_UNIX",
    "SystemCallFilter=@system-service",
    "InaccessiblePaths=-/run/treeline",
    "MemoryMax=256M",
    "MemorySwapMax=0",
    "LimitAS=1G",
    "TasksMax=16",
    "LimitNPROC=16",
    "LimitFSIZE=1M",
    "LimitCORE=0",
    "KillSignal=SIGKILL",
    "RuntimeMaxSec=%d" % RUN_S,
)

# Runs inside the unit. It leaves with a number of its own, so that an answer that ends the interpreter passes
# nothing. It looks around first, because systemd goes on without a network of its own where the kernel gives
# none.
_HARNESS = """\
import os, sys
interfaces = {line.split(":")[0].strip() for line in open("/proc/net/dev").read().splitlines()[2:]}
if interfaces - {"lo"} or os.getuid() == 0 or os.access("/etc", os.W_OK):
    sys.stderr.write("not shut in: interfaces %s, user %d\\n" % (sorted(interfaces), os.getuid()))
    sys.exit(NOT_SHUT_IN)
space = {"__name__": "answer"}
try:
    exec(compile(ANSWER, "answer", "exec"), space)
    exec(compile(CHECK, "check", "exec"), space)
except BaseException as error:
    sys.stderr.write("%s: %s\\n" % (type(error).__name__, error))
    sys.exit(1)
sys.exit(PASSED)
"""


@dataclass(frozen=True)
class Task:
    """One answer to run: `check` holds Python statements that raise where the code is wrong."""

    id: str
    phase: str
    code: str
    check: str


@dataclass(frozen=True)
class Result:
    """What became of one task: `passed`, `failed`, or `not available` where it could not be run."""

    id: str
    phase: str
    outcome: str
    detail: str = ""
    seconds: Optional[float] = None

    def as_dict(self) -> dict[str, Any]:
        """For results: plain values."""
        return asdict(self)


def check_answers(
    canaries: Iterable[Mapping[str, Any]], answers: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Run the answers to all canaries that have a `check`; rows of {id, phase, outcome, detail, seconds}.

    `canaries` are the mappings of the load's argument, `answers` those of its result. Equal answers of both
    phases are run once. An answer that never came is no row. Takes at most about RUN_S for each answer.
    """
    tasks = tasks_of(canaries, answers)
    known: dict[tuple[str, str], Result] = {}
    rows = []
    for task in tasks:
        key = (task.code, task.check)
        if key not in known:
            known[key] = run(task)
        rows.append({**known[key].as_dict(), "phase": task.phase})
    return rows


def tasks_of(canaries: Iterable[Mapping[str, Any]], answers: Iterable[Mapping[str, Any]]) -> list[Task]:
    """The answers that can be run, in the order in which they came."""
    checks = {str(one.get("id")): str(one["check"]) for one in canaries if one.get("check")}
    return [
        Task(str(one["id"]), str(one.get("phase")), extract(str(one["got"])), checks[str(one["id"])])
        for one in answers
        if str(one.get("id")) in checks and one.get("got") and not one.get("error")
    ]


def extract(answer: str) -> str:
    """The code in an answer: its first fenced block, else what begins at the first def, import or class."""
    fenced = _FENCED.search(answer)
    if fenced:
        return fenced.group(1)
    begin = re.search(r"^(?:def|class|import|from) ", answer, re.MULTILINE)
    return answer[begin.start() :] if begin else answer


def run(task: Task, python: Optional[str] = None) -> Result:
    """Run one answer in a unit of its own; never raises for what the answer does."""
    missing = why_not()
    if missing:
        return Result(task.id, task.phase, "not available", missing)
    program = "ANSWER = %r\nCHECK = %r\nPASSED, NOT_SHUT_IN = %d, %d\n%s" % (
        task.code,
        task.check,
        _PASSED,
        _NOT_SHUT_IN,
        _HARNESS,
    )
    unit = "treeline-coding-%d-%d.service" % (os.getpid(), next(_UNITS))
    began = time.monotonic()
    try:
        code, said = _run(command(unit, python or interpreter()), program, unit)
    except OSError as error:
        return Result(task.id, task.phase, "not available", "systemd-run: %s" % error)
    took = round(time.monotonic() - began, 3)
    outcome, detail = _judge(code, said)
    return Result(task.id, task.phase, outcome, detail, took)


def why_not() -> Optional[str]:
    """Why answers cannot be run here, or None when they can."""
    if os.geteuid() != 0:
        return "only root can shut the code in; it was not run"
    if shutil.which("systemd-run") is None:
        return "systemd-run is not there; the code was not run"
    return None


def interpreter() -> str:
    """The system's Python: that of an engine may lie in a home, which the unit does not see."""
    return "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable


def command(unit: str, python: str) -> list[str]:
    """How an answer is run; the program comes on standard input."""
    properties = [word for one in PROPERTIES for word in ("--property", one)]
    wrapped = ["systemd-run", "--pipe", "--wait", "--collect", "--unit", unit, *properties]
    return [*wrapped, "--", python, "-I", "-S", "-"]


def _run(argv: Sequence[str], program: str, unit: str) -> tuple[int, str]:
    """Exit status and the last words; whatever is printed is bounded, and the unit is gone afterwards."""
    process = subprocess.Popen(
        list(argv), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    guard = threading.Timer(RUN_S + GRACE_S, process.kill)
    guard.start()
    last: deque[bytes] = deque(maxlen=8)
    try:
        _feed(process, program.encode("utf-8", "replace"))
        while chunk := os.read(process.stderr.fileno(), _KEPT) if process.stderr else b"":
            last.append(chunk)
        code = process.wait(timeout=GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    finally:
        guard.cancel()
        if process.stderr is not None:
            process.stderr.close()
        if process.poll() is None or process.returncode < 0:
            process.kill()
            _stop(unit)
    return code, b"".join(last).decode("utf-8", "replace")


def _feed(process: subprocess.Popen[bytes], program: bytes) -> None:
    """Hand the program over; a unit that is dead already tells so by its exit status."""
    if process.stdin is None:
        return
    try:
        process.stdin.write(program)
        process.stdin.close()
    except BrokenPipeError:
        pass


def _stop(unit: str) -> None:
    with contextlib.suppress(systemd.CommandError):  # RuntimeMaxSec ends it all the same
        systemd.systemctl("stop", "--", unit, check=False)


def _judge(code: int, said: str) -> tuple[str, str]:
    """The outcome, and one line on why."""
    if code == _PASSED:
        return "passed", ""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    ours = [
        line for line in lines if not line.startswith(("Running as unit", "Finished with", "Main processes"))
    ]
    ours = [
        line
        for line in ours
        if not line.startswith(("Service runtime", "CPU time", "IP traffic", "IO bytes"))
    ]
    found = _RESULT.search(said)
    if code == _NOT_SHUT_IN:
        return "not available", (ours[-1] if ours else "not shut in")[:_SAID]
    if found is None:
        # The unit never ran: a property that this systemd or kernel does not know.
        return "not available", (ours[-1] if ours else "systemd-run ended with %d" % code)[:_SAID]
    if found.group(1) == "timeout":
        return "failed", "it did not end within %d s" % RUN_S
    if found.group(1) in ("oom-kill", "signal", "core-dump"):
        return "failed", "it was killed: %s" % found.group(1)
    return "failed", (ours[-1] if ours else "it ended with %d" % code)[:_SAID]
