"""ssh's way to a lab host: connect inside the lab's network namespace and hand the connection to ssh.

As ProxyCommand:  python -I -S proxy.py [--pass-fd] --netns tl-NAME %h %p

With `--pass-fd` (ssh: ProxyUseFdpass=yes) the connected socket itself is given to ssh and this program ends,
so nothing is copied. Without it, it relays until both sides are done. Standard library only and quick to
start: it runs once per connection. Entering a namespace needs root; anyone else goes through `sudo -n`.
"""

from __future__ import annotations

import argparse
import array
import contextlib
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import NoReturn

# Defined here and not in network.py, because this file imports nothing of its package: ssh runs it alone.
NETNS_DIR = Path("/run/netns")
CONNECT_TIMEOUT_S = 10.0
CLONE_NEWNET = 0x40000000
CHUNK = 65536


def enter_netns(path: Path) -> None:
    """Move the calling thread into the network namespace at `path`; raises OSError when it cannot."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if sys.version_info >= (3, 12):
            os.setns(fd, CLONE_NEWNET)
            return
        import ctypes  # slow to import, and not needed on newer Pythons

        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(fd, CLONE_NEWNET) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(path))
    finally:
        os.close(fd)


def connect(address: str, port: int, timeout: float = CONNECT_TIMEOUT_S) -> socket.socket:
    """A blocking TCP connection from the namespace this thread is in; raises OSError."""
    made = socket.create_connection((address, port), timeout)
    made.settimeout(None)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def pass_descriptor(made: socket.socket) -> None:
    """Give the connection to ssh over standard output (ssh_config(5), ProxyUseFdpass)."""
    with socket.socket(fileno=os.dup(sys.stdout.fileno())) as out:
        out.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [made.fileno()]))])


def relay(made: socket.socket, source: int = 0, sink: int = 1) -> None:
    """Copy both ways until the host has closed; end of input closes the sending half only."""
    threading.Thread(target=_upstream, args=(made, source), daemon=True).start()
    while data := made.recv(CHUNK):
        view = memoryview(data)
        while view:
            view = view[os.write(sink, view) :]


def _upstream(made: socket.socket, source: int) -> None:
    try:
        while data := os.read(source, CHUNK):
            made.sendall(data)
        made.shutdown(socket.SHUT_WR)
    except OSError:
        return  # the host is gone; the other direction ends the relay


def _as_root(argv: list[str]) -> str:
    """Start over as root; returns only to say why that is impossible."""
    why = "the lab's network is entered with sudo (or run as root)"
    try:
        asked = subprocess.run(["sudo", "-n", "true"], capture_output=True, text=True, check=False)
        if asked.returncode == 0:
            command = ["sudo", "-n", sys.executable, "-I", "-S", str(Path(__file__).resolve()), *argv]
            os.execvp("sudo", command)  # noqa: S606
        return f"{why}: {asked.stderr.strip()}"
    except OSError as error:
        return f"{why}: {error}"


def _give_up(message: str, pass_fd: bool) -> NoReturn:
    """Say why there is no connection, on standard error and to ssh.

    With ControlPersist ssh silences this program's standard error. It quotes a greeting that it does not
    understand, though, so it gets one that is the message.
    """
    if pass_fd:
        ours, theirs = socket.socketpair()
        pass_descriptor(theirs)
        theirs.close()
        if os.fork() == 0:  # ssh waits for this program before it says and hears anything
            ours.settimeout(CONNECT_TIMEOUT_S)
            with contextlib.suppress(OSError):
                ours.recv(256)
                ours.sendall(f"SSH- {message}\r\n".encode())
            os._exit(0)
    sys.exit(f"treeline-lab: {message}")


def main(argv: list[str]) -> None:
    """Connect and hand over, or say in one line why not."""
    parser = argparse.ArgumentParser(prog="proxy.py", description="connect to a lab host in its own network")
    parser.add_argument("--netns", required=True, help="the lab's network namespace, tl-<lab name>")
    parser.add_argument("--pass-fd", action="store_true", help="hand the socket over (ProxyUseFdpass=yes)")
    parser.add_argument("address")
    parser.add_argument("port", type=int)
    options = parser.parse_args(argv)
    path = NETNS_DIR / options.netns
    if not path.exists():
        lab = options.netns.removeprefix("tl-")
        _give_up(f"lab {lab} is not up; boot it: ansible-playbook lab.yml", options.pass_fd)
    if os.geteuid() != 0:
        _give_up(_as_root(argv), options.pass_fd)
    try:
        enter_netns(path)
        made = connect(options.address, options.port)
    except OSError as error:
        where = f"{options.address} port {options.port} in {options.netns}"
        _give_up(f"no connection to {where}: {error}", options.pass_fd)
    if options.pass_fd:
        pass_descriptor(made)
    else:
        relay(made)


if __name__ == "__main__":
    main(sys.argv[1:])
