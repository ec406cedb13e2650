"""The scheduler process: start-up, then steps until the parent goes away.

Started by the parent as ``python -m treeline_reference_engine.scheduler_process FD``.
"""

from __future__ import annotations

import logging
import os
import random
import select
import signal
import sys
import time
import traceback
from collections import deque
from dataclasses import replace
from multiprocessing.connection import Connection

from . import logs, profiles
from .batch_engine import BatchEngine
from .crash import prefix
from .faults import Fault, due
from .messages import Announce, Died, Leave, Ready, connection
from .ranks import die_on_ranks
from .scheduler import Scheduler
from .server_args import ServerArgs
from .startup import SimulatedFaultError, SimulatedKillError, Startup

_log = logging.getLogger(__name__)

_ANNOUNCED_S = 0.05  # for the parent's line to be written
_LAST_S = 10.0
_WATCHDOG_S = 5.0  # SGLang's watchdog waits so long before it ends the server
_SPREAD = 512
"""Tokens by which two lives of the same service may differ, as memory that others left free does."""


class Inbox:
    """Messages of the parent. The parent's end closing is the order to leave."""

    def __init__(self, link: Connection) -> None:
        self._link = link
        self.messages: deque[object] = deque()

    def wait(self, seconds: float | None) -> None:
        """Wait for a message, at most ``seconds`` (None: ever). Raises SystemExit when the parent is gone."""
        ready, _, _ = select.select([self._link], [], [], seconds)
        if not ready:
            return
        try:
            self.messages.append(self._link.recv())
        except (EOFError, ConnectionError):
            raise SystemExit(0) from None

    def sleep_until(self, deadline: float) -> None:
        """Sleep to a monotonic time, taking messages in meanwhile."""
        while (left := deadline - time.monotonic()) > 0:
            self.wait(left)
        self.wait(0)

    def pause(self, seconds: float) -> None:
        """Sleep ``seconds``."""
        self.sleep_until(time.monotonic() + seconds)


def run(link: Connection) -> None:
    """The whole life. Raises SimulatedFaultError, SimulatedKillError or SystemExit."""
    args = ServerArgs(link.recv())
    logs.configure(args["log_level"], prefix(0, args["tp_size"]))
    inbox = Inbox(link)
    try:
        live(args, link, inbox)
    except SimulatedFaultError as hit:
        die(hit, args, link)
        raise


def die(hit: SimulatedFaultError, args: ServerArgs, link: Connection) -> None:
    """Everything that is printed before the process goes."""
    fault = hit.fault
    if fault.sigquit_first:
        link.send(Announce())
        time.sleep(_ANNOUNCED_S)
    largest = args.capture_sizes[-1] if args.capture_sizes else int(args["max_running_requests"])
    size = fault.captured_bs or largest
    facts = {"bs": size, "rows": size * args.width, "short_rows": size * max(1, args.width - 1)}
    deaths: list[Died] = []
    die_on_ranks(
        fault,
        hit.phase,
        args["tp_size"],
        facts,
        args["kernel_log"],
        lambda rank, pid, code: deaths.append(Died(rank, pid, code)),
    )
    if deaths:
        link.send(deaths[0])
        time.sleep(_LAST_S)  # bounded: the parent's SIGKILL comes at once
    elif fault.error.death == "killed":
        raise SimulatedKillError
    elif fault.error.death == "exec":
        raise SystemExit(fault.error.exit_code)
    elif fault.error.death == "watchdog":
        time.sleep(_WATCHDOG_S * float(args["time_scale"]))


def measured(profile: profiles.Profile) -> profiles.Profile:
    """The profile with the tokens that fit into this life's memory: not quite as many as in the last one."""
    tokens = profile.memory.max_total_num_tokens - random.randrange(_SPREAD)  # noqa: S311
    return replace(profile, memory=replace(profile.memory, max_total_num_tokens=tokens))


def live(args: ServerArgs, link: Connection, inbox: Inbox) -> None:
    """Start-up and service."""
    profile = measured(profiles.load(args["fault_profile"]))
    rule = profile.match(args)
    fault = rule.fault if rule else None
    if fault is not None and fault.crash and fault.phase == "args":
        raise SimulatedFaultError(fault, "args")
    model, drafter = Startup(args, profile, inbox.pause).run()
    scheduler = Scheduler(
        args,
        BatchEngine(model, drafter),
        profile.timing,
        fault,
        profile.memory.max_total_num_tokens,
        link.send,
        inbox.sleep_until,
    )
    shown = {
        "profile": profile.name,
        "rule": rule.name if rule else None,
        "extrapolated": rule.extrapolated if rule else False,
    }
    link.send(Ready(profile.memory.max_total_num_tokens, args.capture_sizes, shown))
    serve(scheduler, inbox, link, fault)


def serve(scheduler: Scheduler, inbox: Inbox, link: Connection, fault: Fault | None) -> None:
    """Steps while there is work, waiting for messages otherwise."""
    began = time.monotonic()
    while True:
        idle = not scheduler.busy
        if idle and not inbox.messages:
            inbox.wait(0.1 if fault is not None and fault.after_s is not None else None)
        while inbox.messages:
            scheduler.take(inbox.messages.popleft())
            inbox.wait(0)
        if fault is not None:
            strike(fault, scheduler, inbox, link, time.monotonic() - began)
        if scheduler.busy:
            if idle:
                scheduler.resume()
            scheduler.run_once()


def strike(fault: Fault, scheduler: Scheduler, inbox: Inbox, link: Connection, seconds: float) -> None:
    """Let a fault of the service come, if its time has. Raises SimulatedFaultError or SimulatedKillError."""
    if fault.phase == "warmup" and fault.crash and scheduler.busy:
        raise SimulatedFaultError(fault, "warmup")
    if fault.phase != "serving" or not due(fault, scheduler.finished, seconds):
        return
    if fault.kind == "exit":
        link.send(Leave(f"the fault profile ends the server {fault.after_s} s after ready"))
        inbox.wait(None)
    elif fault.kind == "killed":
        raise SimulatedKillError
    elif fault.crash:
        raise SimulatedFaultError(fault, "serving")
    while fault.kind == "stall":  # requests pile up; the end of the parent ends this too
        inbox.pause(60.0)
        inbox.messages.clear()


def main() -> int:
    """Run, and die as SGLang's scheduler dies: exception text, SIGQUIT to the parent, then its SIGKILL."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the parent drains; its end of the link decides
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    link = connection(int(sys.argv[1]))
    parent = os.getppid()
    try:
        run(link)
    except SimulatedFaultError:
        pass  # its text has been printed
    except SimulatedKillError:
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    except Exception:
        _log.error("Scheduler hit an exception: %s", traceback.format_exc())
    os.kill(parent, signal.SIGQUIT)
    time.sleep(_LAST_S)  # bounded: the parent's SIGKILL comes at once
    return 1


if __name__ == "__main__":
    sys.exit(main())
