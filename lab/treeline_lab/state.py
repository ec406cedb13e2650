"""Where a lab keeps its files, who owns them, and the record of each host."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from treeline_lab.errors import LabError

RUN_DIR = Path("/run/treeline-lab")
# unix(7) allows 107 bytes for a socket's path; ssh first binds NAME plus 17 more, and NAME is /ssh/ADDRESS.
LONGEST_ROOT = 107 - 17 - len("/ssh/255.255.255.255")
LAB_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?")


class HostRecord(msgspec.Struct, frozen=True):
    """What a host was made from; written last, so that a host without it is debris of a killed `up`."""

    address: str
    rootfs: str
    binds: list[str] = []


def default_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """`treeline` in the user's cache directory; under sudo the cache of the user who called it."""
    if environ.get("XDG_CACHE_HOME"):
        return Path(environ["XDG_CACHE_HOME"]) / "treeline"
    if os.geteuid() == 0 and environ.get("SUDO_USER"):
        try:
            return Path(pwd.getpwnam(environ["SUDO_USER"]).pw_dir) / ".cache/treeline"
        except KeyError:
            pass
    return Path(environ.get("HOME") or pwd.getpwuid(os.geteuid()).pw_dir) / ".cache/treeline"


def caller(environ: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """uid and gid of the person at the keyboard: sudo's caller when there is one."""
    if os.geteuid() == 0 and environ.get("SUDO_UID", "").isdigit() and environ.get("SUDO_GID", "").isdigit():
        return int(environ["SUDO_UID"]), int(environ["SUDO_GID"])
    return os.geteuid(), os.getegid()


def control_dir(root: Path, name: str) -> Path:
    """Where the control sockets of ssh lie: with the lab, so that a new lab at the same address never meets
    an old connection; below /run when that path is too long for a socket. inventory/lab has the same rule.
    """
    return root / "ssh" if len(str(root)) <= LONGEST_ROOT else RUN_DIR / name


def check_lab_name(name: str) -> str:
    """`name` itself, or LabError with what is allowed."""
    if not LAB_NAME.fullmatch(name):
        raise LabError(f"lab name {name!r}: allowed are lower-case letters, digits and dashes, at most 40")
    return name


def check_host_name(name: str) -> str:
    """`name` itself, or LabError with what is allowed."""
    if not HOST_NAME.fullmatch(name) or ".." in name:
        raise LabError(f"host name {name!r}: allowed are letters, digits, dots and dashes, at most 63")
    return name


class LabFiles:
    """Paths of one lab under the state directory."""

    def __init__(self, state_dir: Path, name: str) -> None:
        self.state_dir = state_dir
        self.root = state_dir / "labs" / name
        self.lock = state_dir / "labs" / f".{name}.lock"
        self.rootfs_cache = state_dir / "rootfs"
        self.key = self.root / "ssh_key"
        self.known_hosts = self.root / "known_hosts"
        self.hosts = self.root / "hosts"
        self.control = control_dir(self.root, name)

    def host(self, name: str) -> HostFiles:
        """Paths of one host."""
        return HostFiles(self.hosts / name)

    def make_base(self) -> None:
        """Make the directory of all labs; it belongs to the person who calls."""
        for directory in (self.state_dir.parent, self.state_dir, self.root.parent):
            _make_owned(directory)

    def make(self) -> None:
        """Make the lab's directories; what ssh needs belongs to the person who calls."""
        self.make_base()
        _make_owned(self.root)
        _make_owned(self.control)
        self.control.chmod(0o700)
        self.hosts.mkdir(exist_ok=True)

    def host_names(self) -> list[str]:
        """Hosts that have a directory."""
        return sorted(path.name for path in self.hosts.iterdir()) if self.hosts.is_dir() else []


class HostFiles:
    """Paths of one host."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.upper = root / "upper"
        self.work = root / "work"
        self.mount = root / "root"
        self.console = root / "console.log"
        self.host_key = root / "ssh_host_ed25519_key"
        self._record = root / "host.json"

    def read(self) -> HostRecord | None:
        """The host's record; None when the host was never finished."""
        try:
            return msgspec.json.decode(self._record.read_bytes(), type=HostRecord)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def write(self, record: HostRecord) -> None:
        """Write the record whole or not at all."""
        write_atomically(self._record, msgspec.json.encode(record))


def _make_owned(directory: Path) -> None:
    if not directory.is_dir():
        directory.mkdir(parents=True, exist_ok=True)
        os.chown(directory, *caller())


def write_atomically(path: Path, content: bytes) -> None:
    """Replace `path` in one step."""
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(content)
    part.replace(path)
