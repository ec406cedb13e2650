"""Full disks on a lab host, without filling anything of this machine, and a journal that forgets.

A tmpfs of the host (`/run`, `/tmp`) is limited to what it holds already. Any other directory is covered by a
small tmpfs with a copy of what was in it; `drain` carries back what it holds then. Until then who writes is
told "No space left on device", as by a disk that is full.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import msgspec

from treeline_lab.commands import run
from treeline_lab.errors import LabError
from treeline_lab.host import Host
from treeline_lab.state import write_atomically

COVER = "treeline-lab-full"
# Where a cover is made ready; Debian keeps this folder empty for an administrator's mounts.
STAGE = "/mnt"
LARGEST_COVER_KIB = 64 * 1024
LIMITS = "limits.json"


@dataclass(frozen=True)
class Mount:
    """What is mounted at one place inside a host: file system, source, and the size option of a tmpfs."""

    kind: str
    source: str
    size: str | None


def fill(host: Host, path: str, leave_kib: int = 0) -> str:
    """Leave `leave_kib` KiB free at `path` inside the host, and say how that was done.

    Raises LabError when the path is no directory there, is full already, holds more than 64 MiB, or lies
    inside a tmpfs: what is below a cover there could not be reached to give it back.
    """
    place = _checked(host, path)
    found = mounted(host, place)
    if found is not None and found.source == COVER:
        raise LabError(f"{host.name}:{place} is full already; give the space back with: drain")
    if found is not None and found.kind == "tmpfs":
        _remember(host, place, found.size or "50%")
        _limit(host, place, leave_kib)
        return f"the tmpfs at {place} has room for {leave_kib} KiB more"
    if found is None and _do(host, "stat", "-f", "-c", "%T", place).strip() == "tmpfs":
        whole = _do(host, "df", "--output=target", place).split()[-1]
        raise LabError(
            f"{host.name}:{place} lies in the tmpfs at {whole}, of which no part can be full by itself; "
            f"fill {whole} instead"
        )
    _cover(host, place, leave_kib)
    return f"{place} is covered by a copy of itself with room for {leave_kib} KiB more"


def drain(host: Host, path: str) -> bool:
    """Give the space at `path` back; False when it was not taken (a reboot gives it back too).

    What was written meanwhile is kept. Raises LabError when something keeps the cover busy.
    """
    place = _checked(host, path)
    found = mounted(host, place)
    limits = _limits(host)
    if found is not None and found.source == COVER:
        _uncover(host, place)
        return True
    if place not in limits:
        return False
    size = limits.pop(place)
    if found is not None and found.kind == "tmpfs":
        _do(host, "mount", "-o", f"remount,size={size}", place)
    _write_limits(host, limits)
    return True


def forget_journal(host: Host) -> str:
    """Rotate the host's journal and delete what is archived then; what journalctl says of it."""
    _do(host, "journalctl", "--rotate")
    return _do(host, "journalctl", "--vacuum-files=1", "--vacuum-time=1s").strip()


def mounted(host: Host, place: str) -> Mount | None:
    """What is mounted at exactly this place inside the host; the newest where several lie over another."""
    found = None
    for line in _do(host, "cat", "/proc/self/mounts").splitlines():
        source, at, kind, options = line.split()[:4]
        if at == place:
            sizes = [word.partition("=")[2] for word in options.split(",") if word.startswith("size=")]
            found = Mount(kind, source, sizes[0] if sizes else None)
    return found


def _checked(host: Host, path: str) -> str:
    place = str(PurePosixPath(path))
    if not place.startswith("/") or place == "/":
        raise LabError(f"{path!r}: give the full path of a directory of the host, such as /run")
    if host.enter(["test", "-d", place]).returncode != 0:
        raise LabError(f"{host.name}:{place} is no directory")
    return place


def _limit(host: Host, place: str, leave_kib: int) -> None:
    used = int(_do(host, "df", "--output=used", "--block-size=1K", place).split()[-1])
    # The kernel takes 0 for "no limit", and no size below what is used.
    _do(host, "mount", "-o", f"remount,size={max(used + leave_kib, 4)}k", place)


def _cover(host: Host, place: str, leave_kib: int) -> None:
    size = int(_do(host, "du", "-s", "--block-size=1K", place).split()[0])
    if size > LARGEST_COVER_KIB:
        raise LabError(f"{host.name}:{place} holds {size} KiB; {LARGEST_COVER_KIB} KiB can be covered")
    mode = _do(host, "stat", "--format=%a", place).strip()
    _do(host, "mount", "-t", "tmpfs", "-o", f"size={LARGEST_COVER_KIB * 2}k,mode={mode}", COVER, STAGE)
    try:
        _do(host, "cp", "-a", f"{place}/.", STAGE)
        _do(host, "mount", "--bind", STAGE, place)
    finally:
        _do(host, "umount", STAGE)
    _limit(host, place, leave_kib)


def _uncover(host: Host, place: str) -> None:
    # A plain bind of the root shows what lies below the cover.
    _do(host, "mount", "--bind", "/", STAGE)
    try:
        below = f"{STAGE}{place}"
        _do(host, "find", below, "-mindepth", "1", "-delete")
        _do(host, "cp", "-a", f"{place}/.", below)
        _do(host, "umount", "--lazy", place)
    finally:
        _do(host, "umount", STAGE)


def _do(host: Host, *argv: str) -> str:
    return run(host.enter_command(list(argv)), timeout=60).stdout


def _file(host: Host) -> Path:
    return host.files.root / LIMITS


def _limits(host: Host) -> dict[str, str]:
    try:
        return msgspec.json.decode(_file(host).read_bytes(), type=dict[str, str])
    except FileNotFoundError:
        return {}


def _remember(host: Host, place: str, size: str) -> None:
    limits = _limits(host)
    limits.setdefault(place, size)
    _write_limits(host, limits)


def _write_limits(host: Host, limits: dict[str, str]) -> None:
    write_atomically(_file(host), msgspec.json.encode(limits))
