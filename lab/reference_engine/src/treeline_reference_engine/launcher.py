"""The parent process before it serves: the scheduler's process, and the rule that both die together."""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

from . import logs
from .faults import Fault
from .files import CONFIG_FILE
from .messages import Announce, Died, Ready, connection
from .server_args import ServerArgs

_log = logging.getLogger(__name__)

_SERVICE_LINE = "SIGQUIT received. signum=%s, frame=%s. It usually means one child failed."


class Launcher:
    """The scheduler process and the rule that both die together."""

    def __init__(self, args: ServerArgs) -> None:
        ours, theirs = socket.socketpair()
        os.set_inheritable(theirs.fileno(), True)
        command = [sys.executable, "-m", "treeline_reference_engine.scheduler_process", str(theirs.fileno())]
        signal.signal(signal.SIGQUIT, self._sigquit_in_launch)
        self.process = subprocess.Popen(command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL)
        theirs.close()
        self.link: Connection = connection(ours.detach())
        self.link.send(args.values)
        self._announced = False

    def wait_ready(self) -> Ready:
        """Block until the scheduler is ready. Raises RuntimeError when it died without a word."""
        message: object = Announce()
        while isinstance(message, Announce):
            try:
                message = self.link.recv()
            except (EOFError, ConnectionError):
                raise _died_in_launch(0, self.process.wait()) from None
            if isinstance(message, Announce):
                self.announce()
        if isinstance(message, Died):
            raise _died_in_launch(message.rank, message.code)
        if not isinstance(message, Ready):
            raise RuntimeError(f"The scheduler sent {type(message).__name__} before it was ready.")
        signal.signal(signal.SIGQUIT, self._sigquit_in_service)
        return message

    def died_in_service(self) -> None:
        """The link broke while serving."""
        self.rank_died(Died(0, self.process.pid, self.process.wait()))

    def rank_died(self, death: Died) -> None:
        """A rank's process has ended while serving: so does everything."""
        _log.error(
            "Subprocess scheduler_%d (pid=%d) crashed with exit code %d. Triggering SIGQUIT for cleanup...",
            death.rank,
            death.pid,
            death.code,
        )
        os.kill(os.getpid(), signal.SIGQUIT)

    def announce(self) -> None:
        """Say that a child failed, before the child itself says why."""
        self._announced = True
        _log.error(_SERVICE_LINE, signal.SIGQUIT.value, None)

    def stop(self) -> None:
        """Let the scheduler leave (its link is closed); kill it after two seconds."""
        try:
            self.process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _sigquit_in_launch(self, signum: int, frame: object) -> NoReturn:
        if not self._announced:
            _log.error("Received sigquit from a child process. It usually means the child failed.")
        self._kill_all()

    def _sigquit_in_service(self, signum: int, frame: object) -> NoReturn:
        if not self._announced:
            _log.error(_SERVICE_LINE, signum, None)
        self._kill_all()

    def _kill_all(self) -> NoReturn:
        """SIGKILL the child and then this process, as SGLang does; systemd sees code=killed, status=9."""
        sys.stderr.flush()
        self.process.kill()
        os.kill(os.getpid(), signal.SIGKILL)
        raise SystemExit(1)


def _died_in_launch(rank: int, code: int) -> RuntimeError:
    return RuntimeError(
        f"Rank {rank} scheduler died during initialization (exit code: {code}). "
        "If exit code is -9 (SIGKILL), "
        "a common cause is the OS OOM killer. Run `dmesg -T | grep -i oom` to check."
    )


def _take_port(args: ServerArgs, fault: Fault | None) -> socket.socket | None:
    """Stand in for another process on the port, where the fault profile asks for one."""
    if fault is None or fault.kind != "port_taken":
        return None
    other = socket.socket()
    other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    other.bind((args["host"], args["port"]))
    other.listen()
    return other


def launch(args: ServerArgs, note: str, fault: Fault | None) -> None:
    """Run the server to its end; returns after an orderly exit. ``fault``: what the fault profile plays."""
    began = time.monotonic()
    logs.configure(args["log_level"])
    _log.info("%s", args.line())
    _log.info("%s", note)
    for warning in args.warnings:
        _log.warning("%s", warning)
    other = _take_port(args, fault)
    launcher = Launcher(args)
    if fault is None or not fault.ends_start:
        # While the scheduler starts; what dies before it serves has no need of the HTTP libraries.
        importlib.import_module(f"{__package__}.server")
    ready = launcher.wait_ready()
    from .server import Server

    config = json.loads((Path(args["model_path"]) / CONFIG_FILE).read_text())
    server = Server(args, launcher, ready, config, began, fault)
    try:
        asyncio.run(server.run())
    except SystemExit:
        # uvicorn could not bind. Its status depends on the version (1 or 3); SGLang's is 1.
        launcher.link.close()
        launcher.stop()
        raise SystemExit(1) from None
    finally:
        if other is not None:
            other.close()
