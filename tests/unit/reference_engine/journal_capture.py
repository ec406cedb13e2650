"""A process's output as journald would store it, without systemd.

journald reads a unit's output from a Unix socket and takes the sender's process id from the credentials of
each message; lines are cut where the sender changes. So does this: ranks that are told apart only by their
process id are told apart here too.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_CREDENTIALS = struct.Struct("3i")
_INVOCATION = "0123456789abcdef0123456789abcdef"
_UNIT = "sglang-ddtree-trial.service"
_NOT_PLAIN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class JournalCapture:
    """Runs one command and keeps what its processes print, entry by entry."""

    def __init__(self, command: Sequence[str], environment: dict[str, str] | None = None) -> None:
        self.entries: list[dict[str, Any]] = []
        self._rest: tuple[int, bytes] | None = None
        self._source, sink = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._source.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._systemd(f"Started {_UNIT} - SGLang inference server.")
        self.process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
        sink.close()

    def read(self, timeout: float) -> bool:
        """Take what comes within ``timeout`` seconds; False once every writer has gone."""
        self._source.settimeout(timeout)
        try:
            data, ancillary, _, _ = self._source.recvmsg(65536, socket.CMSG_SPACE(_CREDENTIALS.size))
        except TimeoutError:
            return True
        if not data:
            return False
        pid = next(
            _CREDENTIALS.unpack(blob)[0] for _, kind, blob in ancillary if kind == socket.SCM_CREDENTIALS
        )
        self._take(pid, data)
        return True

    def _take(self, pid: int, data: bytes) -> None:
        if self._rest is not None and self._rest[0] != pid:
            self._line(self._rest[0], self._rest[1], _LINE_BREAK="pid-change")
            self._rest = None
        *lines, rest = ((self._rest[1] if self._rest else b"") + data).split(b"\n")
        for line in lines:
            self._line(pid, line)
        self._rest = (pid, rest) if rest else None

    def _line(self, pid: int, line: bytes, **more: str) -> None:
        text = line.decode(errors="surrogateescape").rstrip(" ")
        plain = not _NOT_PLAIN.search(text)
        message: Any = text if plain else list(line)  # journalctl shows what is no text as numbers
        self._store(message if line else None, _PID=str(pid), _SYSTEMD_UNIT=_UNIT,
                    _SYSTEMD_INVOCATION_ID=_INVOCATION, SYSLOG_IDENTIFIER="python3", **more)  # fmt: skip

    def _systemd(self, text: str) -> None:
        self._store(text, _PID="1", SYSLOG_IDENTIFIER="systemd", UNIT=_UNIT, INVOCATION_ID=_INVOCATION)

    def _store(self, message: Any, **fields: str) -> None:
        self.entries.append(
            {"MESSAGE": message, "__REALTIME_TIMESTAMP": str(int(time.time() * 1e6)), **fields}
        )

    @property
    def text(self) -> str:
        """Everything so far, bars split into lines."""
        out = []
        for entry in self.entries:
            message = entry["MESSAGE"]
            out.append(
                bytes(message).decode(errors="replace") if isinstance(message, list) else message or ""
            )
        return "\n".join(out).replace("\r", "\n")

    def wait(self, timeout: float = 60.0) -> int:
        """Read until the process has ended; its exit code as Python gives it."""
        deadline = time.monotonic() + timeout
        while self.read(0.2):
            if self.process.poll() is not None and not self._pending():
                break
            assert time.monotonic() < deadline, self.text
        code = self.process.wait(timeout=5)
        if self._rest is not None:
            self._line(*self._rest)
        what = f"code=exited, status={code}" if code >= 0 else f"code=killed, status={-code}/KILL"
        if code != 0:
            self._systemd(f"{_UNIT}: Main process exited, {what}")
            self._systemd(f"{_UNIT}: Failed with result '{'exit-code' if code > 0 else 'signal'}'.")
        return code

    def _pending(self) -> bool:
        try:
            return bool(self._source.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except (BlockingIOError, TimeoutError):  # the latter where the socket has a time-out of its own
            return False

    def save(self, path: Path) -> Path:
        """Write the entries as ``journalctl -o json`` does."""
        path.write_text("".join(json.dumps(entry) + "\n" for entry in self.entries))
        return path

    def kill(self) -> None:
        """Leave nothing behind."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._source.close()


def engine_command(*arguments: str) -> list[str]:
    """The engine's command line."""
    return [sys.executable, "-m", "treeline_reference_engine", *arguments]
