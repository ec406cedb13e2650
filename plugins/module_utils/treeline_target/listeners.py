"""Find who listens on a TCP port of this host, and whether it is one of ours."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Collection, Iterable, Optional

from . import cgroups, systemd

_LISTEN = "0A"
_PROC = Path("/proc")


@dataclass(frozen=True)
class Listener:
    """One listening socket and the processes that hold it (none when they cannot be seen)."""

    port: int
    inode: int
    holders: tuple[cgroups.Process, ...]


def parse_sockets(text: str, port: int) -> list[int]:
    """Inodes of the sockets that listen on `port`, from the text of /proc/net/tcp or tcp6."""
    inodes = []
    for line in text.splitlines()[1:]:
        parts = line.split()
        if len(parts) > 9 and parts[3] == _LISTEN and int(parts[1].rpartition(":")[2], 16) == port:
            inodes.append(int(parts[9]))
    return inodes


def find(port: int, proc: Path = _PROC) -> list[Listener]:
    """The sockets that listen on `port`, on any address of this host."""
    inodes = []
    for name in ("tcp", "tcp6"):
        try:
            inodes += parse_sockets((proc / "net" / name).read_text(encoding="ascii"), port)
        except OSError:
            continue
    if not inodes:
        return []
    holders = _holders(set(inodes), proc)
    root = cgroups.manager_root(proc)
    return [
        Listener(port, inode, tuple(cgroups.describe(pid, root, proc) for pid in holders.get(inode, ())))
        for inode in inodes
    ]


def strangers(
    listeners: Iterable[Listener],
    ours: Collection[str],
    socket_unit_of: Optional[Callable[[int], Optional[str]]] = None,
) -> list[str]:
    """Readable names of the holders that belong to none of the units `ours` (names of services and sockets).

    A socket that PID 1 holds belongs to the socket unit that listens there (`socket_unit_of` the port).
    """
    look = socket_unit_of or socket_unit
    found = []
    for listener in listeners:
        others = [holder for holder in listener.holders if holder.pid != 1]
        found += [str(holder) for holder in others if holder.unit not in ours]
        if listener.holders and not others:
            unit = look(listener.port)
            if unit not in ours:
                found.append("systemd (pid 1) for %s" % (unit or "a socket unit"))
        if not listener.holders:
            found.append("a process that cannot be seen (socket inode %d)" % listener.inode)
    return list(dict.fromkeys(found))


def socket_unit(port: int) -> Optional[str]:
    """The loaded socket unit that listens on TCP `port`; None when there is none. Raises CommandError."""
    shown = systemd.systemctl("show", "--property=Id,Listen", "--", "*.socket").stdout
    return match_socket(shown, port)


def match_socket(shown: str, port: int) -> Optional[str]:
    """The Id in the block of `systemctl show` output whose Listen names `port`."""
    for block in shown.split("\n\n"):
        properties = systemd.parse_properties(block)
        for address in properties.get("Listen", "").splitlines():
            place = address.partition(" ")[0]
            if place.rpartition(":")[2] == str(port):
                return properties.get("Id")
    return None


def _holders(inodes: Collection[int], proc: Path) -> dict[int, list[int]]:
    """Socket inode -> pids with an open descriptor on it."""
    wanted = {"socket:[%d]" % inode: inode for inode in inodes}
    found: dict[int, list[int]] = {}
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            links = list((entry / "fd").iterdir())
        except OSError:
            continue
        for link in links:
            try:
                inode = wanted.get(os.readlink(link))  # noqa: PTH115 - the target is no path
            except OSError:
                continue
            if inode is not None and int(entry.name) not in found.setdefault(inode, []):
                found[inode].append(int(entry.name))
    return found
