"""Files that must survive a crash: atomic writes, JSON objects and bounded locks."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional, Union


class StateFileError(Exception):
    """A state file cannot be read, written or locked; the message names the file and says why."""


@dataclass(frozen=True)
class Paths:
    """Where Treeline keeps state on a target. Tests give other roots; nothing else does.

    `state` survives a reboot (the snapshot), `run` does not (the lease, evidence), `units` and
    `overrides` hold units that systemd forgets at reboot.
    """

    state: Path = Path("/var/lib/treeline")
    run: Path = Path("/run/treeline")
    units: Path = Path("/run/systemd/system")
    # Read before /etc/systemd/system and /run/systemd/system, and gone at reboot: a mask in it wins.
    overrides: Path = Path("/run/systemd/system.control")

    @property
    def snapshot(self) -> Path:
        return self.state / "found.json"

    @property
    def library(self) -> Path:
        return self.state / "lib"

    @property
    def last_restore(self) -> Path:
        return self.state / "last-restore.json"

    @property
    def restore_lock(self) -> Path:
        return self.state / "restore.lock"

    @property
    def lease(self) -> Path:
        return self.run / "lease.json"

    @property
    def evidence(self) -> Path:
        return self.run / "evidence"

    @property
    def lease_fired(self) -> Path:
        return self.run / "lease-fired.json"

    @property
    def lease_lock(self) -> Path:
        return self.run / "lease.lock"


PATHS = Paths()


def forget_evidence(paths: Paths = PATHS, but: str = "") -> None:
    """Remove what earlier trials left in memory (`run` is a tmpfs); the folder of trial `but` stays.

    Called when the controller has recorded those trials, or has given them up.
    """
    for folder in paths.evidence.iterdir() if paths.evidence.is_dir() else ():
        if folder.name != but:
            shutil.rmtree(folder, ignore_errors=True)


def make_folder(path: Path, mode: int = 0o755) -> None:
    """Create `path` with `mode`, and what is missing above it with 0755, whatever the umask of the session.

    The engine's own user has to get through /run/treeline to its folder there. What exists is left
    as it is. Raises OSError.
    """
    if path.is_dir():
        return
    if not path.parent.is_dir():
        make_folder(path.parent)
    path.mkdir(exist_ok=True)
    path.chmod(mode)


def write_atomic(
    path: Path, data: Union[str, bytes], mode: int = 0o600, owner: Optional[tuple[int, int]] = None
) -> None:
    """Replace `path` by `data` (text as UTF-8) in one step, on the disk when this returns.

    `owner` is (uid, gid), by default this process's. Raises StateFileError; UnicodeEncodeError for text that
    has no UTF-8.
    """
    content = data.encode("utf-8") if isinstance(data, str) else data
    temporary = path.with_name(".%s.%d" % (path.name, os.getpid()))
    try:
        make_folder(path.parent)
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode)
        try:
            with os.fdopen(handle, "wb") as stream:
                if owner is not None:
                    os.fchown(stream.fileno(), *owner)
                os.fchmod(stream.fileno(), mode)
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_directory(path.parent)
    except OSError as error:
        raise StateFileError("cannot write %s: %s" % (path, error.strerror or error)) from error


def write_json(path: Path, value: Mapping[str, Any], mode: int = 0o600) -> None:
    """Write one JSON object atomically. Raises StateFileError."""
    write_atomic(path, json.dumps(value, indent=1, sort_keys=True) + "\n", mode)


def read_json(path: Path) -> Optional[dict[str, Any]]:
    """The JSON object in `path`, or None without such a file. Raises StateFileError on anything else."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateFileError("cannot read %s: %s" % (path, error.strerror or error)) from error
    except ValueError as error:
        raise StateFileError("%s does not hold JSON: %s" % (path, error)) from error
    if not isinstance(value, dict):
        raise StateFileError("%s does not hold a JSON object" % path)
    return value


def remove(path: Path) -> bool:
    """Delete `path` durably; returns whether it was there. Raises StateFileError."""
    try:
        path.unlink()
        _sync_directory(path.parent)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StateFileError("cannot delete %s: %s" % (path, error.strerror or error)) from error
    return True


@contextmanager
def locked(path: Path, timeout_s: float) -> Iterator[None]:
    """Hold the exclusive lock on `path`; the kernel frees it when the holder dies.

    Raises StateFileError when another process keeps it for longer than `timeout_s` seconds.
    """
    try:
        make_folder(path.parent)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StateFileError("cannot open %s: %s" % (path, error.strerror or error)) from error
    try:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise StateFileError(
                        "%s is held by another process for more than %g s" % (path, timeout_s)
                    ) from None
                time.sleep(0.05)
        yield
    finally:
        os.close(handle)


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
