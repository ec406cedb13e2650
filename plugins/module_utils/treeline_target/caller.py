"""Whether whoever started this module is still there to hear its result.

A module that outlives its connection works for nobody. Three things tell, whichever comes first:
- its standard output has hung up: sshd closes it with the channel;
- one of the processes between it and sshd (shells, sudo) has lost its parent: sshd ended with the connection;
- the ssh connection used to be heard of regularly (ServerAliveInterval of the client) and has gone silent: a
  controller without power says no goodbye, and an sshd without ClientAliveInterval never asks.
An ansible-playbook that is killed takes its ssh client along (treeline.lifeline, on the controller).
"""

from __future__ import annotations

import os
import re
import select
import time
from pathlib import Path
from typing import Callable, Optional, Sequence

from . import systemd

# Programs between a module and the one that holds the connection; whatever else comes is the last to look at.
_WRAPPERS = ("ash", "bash", "busybox", "dash", "doas", "fish", "ksh", "runuser", "sh", "su", "sudo", "zsh")
_CONTROLLER = "ansible"
_DEEPEST = 32
_LAST_RECEIVED = re.compile(r"\blastrcv:(\d+)")
# An ssh client that asks at intervals has given its connection up after three without an answer.
_SILENT_S = 60.0
_SILENT_GAPS = 4
_ENOUGH = 3


class Caller:
    """The caller as it was when this was made; `gone` compares with now.

    `last_received` tells how many seconds ago data came in on the ssh connection (None: not known).
    """

    def __init__(
        self, stdout: int = 1, last_received: Optional[Callable[[], Optional[float]]] = None
    ) -> None:
        self._stdout = stdout
        self._parents = parents()
        self._connection = Heard(last_received or seconds_since_received(self._parents))

    def gone(self) -> Optional[str]:
        """Why nobody waits for this module any more, or None while somebody may."""
        if has_hung_up(self._stdout):
            return "nobody reads the module's result any more (the connection to the controller was closed)"
        if parents(len(self._parents)) != self._parents:
            return (
                "a process that started this module has ended, and the connection to the controller with it"
            )
        return self._connection.silent()


class Heard:
    """Notes when data comes in on the connection, and tells when it no longer does.

    Only a connection on which data kept coming while the module ran has a client that asks at intervals; on
    any other one silence means nothing.
    """

    def __init__(
        self, last_received: Callable[[], Optional[float]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._last_received = last_received
        self._clock = clock
        self._since = clock()
        self._times = 0
        self._longest = 0.0

    def silent(self) -> Optional[str]:
        """That the connection has gone silent, or None."""
        ago = self._last_received()
        if ago is None:
            return None
        at = self._clock() - ago
        if at > self._since + 1:
            self._longest = max(self._longest, at - self._since)
            self._since = at
            self._times += 1
        if self._times >= _ENOUGH and ago > max(_SILENT_S, _SILENT_GAPS * self._longest):
            return "nothing was heard of the controller's ssh client for %d s, which used to ask" % ago
        return None


def has_hung_up(descriptor: int) -> bool:
    """Whether the other end of a pipe or socket is closed; never so for a file."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def parents(count: Optional[int] = None) -> list[int]:
    """Pids of the processes that started this one: the nearest `count`, or as many as matter.

    Those are shells and the like and the first other one, which holds the connection. For a local connection
    it is ansible-playbook and its workers; a shell that they were started from may go.
    """
    found: list[int] = []
    pid, local = os.getppid(), False
    while pid > 1 and len(found) < (_DEEPEST if count is None else count):
        name = _stat(pid)[0]
        if count is None and local and not name.startswith(_CONTROLLER):
            break
        found.append(pid)
        local = local or name.startswith(_CONTROLLER)
        if count is None and name not in _WRAPPERS and not local:
            break
        pid = _stat(pid)[1]
    return found


def seconds_since_received(pids: Sequence[int]) -> Callable[[], Optional[float]]:
    """A function that tells how long ago data came in on the ssh connection of this process or of `pids`."""
    words = _ssh_connection(pids).split()
    if len(words) != 4:
        return lambda: None
    theirs, ours = (_endpoint(words[at], words[at + 1]) for at in (0, 2))

    def ask() -> Optional[float]:
        try:
            shown = systemd.run(("ss", "-H", "-t", "-i", "-n", "src", ours, "dst", theirs), timeout=10).stdout
        except systemd.CommandError:
            return None
        times = _LAST_RECEIVED.findall(shown)
        return int(times[0]) / 1000 if len(times) == 1 else None

    return ask


def _ssh_connection(pids: Sequence[int]) -> str:
    """SSH_CONNECTION of this process; sudo takes it away, so those before it are looked at too."""
    own = os.environ.get("SSH_CONNECTION")
    if own:
        return own
    for pid in pids:
        try:
            settings = Path("/proc/%d/environ" % pid).read_bytes().split(b"\0")
        except OSError:
            continue
        for setting in settings:
            if setting.startswith(b"SSH_CONNECTION="):
                return setting.partition(b"=")[2].decode("ascii", "replace")
    return ""


def _endpoint(address: str, port: str) -> str:
    return "[%s]:%s" % (address, port) if ":" in address else "%s:%s" % (address, port)


def _stat(pid: int) -> tuple[str, int]:
    """Name and parent of a process; no name and no parent where it is gone."""
    try:
        text = Path("/proc/%d/stat" % pid).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "", 0
    head, _, tail = text.rpartition(")")
    return head.partition("(")[2], int(tail.split()[1])
